package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mcpInstall has the conformance suite and the Inspector.
const mcpInstall = "mcp"

// A suiteRun is one run of the conformance suite. The numbers of scenarios that count are those of
// the pinned versions: a suite that runs fewer has not judged everything.
type suiteRun struct {
	scenario string
	library  string // its folder in node_modules
	args     []string
	scored   int
}

func suiteRuns() []suiteRun {
	return []suiteRun{
		{"0.1.16 active", "@modelcontextprotocol/conformance", nil, 30},
		{"0.2.0 requirements 2025-11-25", "conformance-next", []string{"--requirements", "2025-11-25"}, 30},
		{"0.2.0 requirements 2026-07-28", "conformance-next", []string{"--requirements", "2026-07-28"}, 37},
	}
}

// mcpConformance runs the suites against one daemon, which offers the tools that they ask for.
func mcpConformance() client {
	var scenarios []string
	for _, run := range suiteRuns() {
		scenarios = append(scenarios, run.scenario)
	}
	return client{
		name: "mcp conformance", version: pinnedPackage(mcpInstall, "conformance-next"), install: mcpInstall, scenarios: scenarios, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			base, err := s.start(ctx, "mcp-conformance", "env", "PERIGEE_MCP_FIXTURES=1", s.binary, "serve", "--listen", "127.0.0.1:0")
			for _, run := range suiteRuns() {
				if !slices.Contains(c.scenarios, run.scenario) {
					continue
				}
				if err != nil {
					r.add(c, run.scenario, err)
					continue
				}
				summary, err := run.judge(ctx, base+"/mcp")
				if err == nil {
					r.say(c, run.scenario, summary)
				}
				r.add(c, run.scenario, err)
			}
		},
	}
}

// judge runs the suite and returns what it counted.
func (run suiteRun) judge(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	home, err := os.MkdirTemp("", "perigee-conformance-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	script := cached(mcpInstall, "node_modules", filepath.FromSlash(run.library), "dist", "index.js")
	cmd := exec.CommandContext(ctx, newNode(), append([]string{script, "server", "--url", url}, run.args...)...)
	cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	result := readSuite(said.String())
	switch {
	case len(result.failed) > 0:
		return "", fmt.Errorf("%s: failed: %s\n%s", result.summary(), strings.Join(result.failed, ", "), result.complaints(said.String()))
	case err != nil:
		return "", fmt.Errorf("the suite: %w: %s", err, lastBytes(said.String(), 1500))
	case result.scenarios != run.scored:
		return "", fmt.Errorf("%s, but %d scenarios count", result.summary(), run.scored)
	case result.checks < run.scored:
		return "", fmt.Errorf("%s: scenarios without a check", result.summary())
	}
	return result.summary(), nil
}

// A suiteResult is what the suite says at its end about scenarios that count, and about further
// ones.
type suiteResult struct {
	scenarios, passed, checks int
	failed                    []string // scenarios that count, or are not of an extension
	further, furtherPassed    int
}

// extension marks scenarios of extensions of the protocol, which a server need not have.
const extension = "extension"

var (
	suiteLine   = regexp.MustCompile(`(?m)^[✓✗] (\S+): (\d+) passed, (\d+) failed`)
	suiteUnrate = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \((\S+)\)`)
)

// readSuite reads the summary. A scenario counts unless it is listed as not scored: those that were
// added after the release, that are pending, or of an extension.
func readSuite(said string) suiteResult {
	_, summary, _ := strings.Cut(said, "=== SUMMARY ===")
	summary, unscored, _ := strings.Cut(summary, "Not scored")
	apart := map[string]string{}
	for _, match := range suiteUnrate.FindAllStringSubmatch(unscored, -1) {
		apart[match[1]] = match[2]
	}
	var r suiteResult
	for _, match := range suiteLine.FindAllStringSubmatch(summary, -1) {
		passed, _ := strconv.Atoi(match[2])
		ok := match[3] == "0" && passed > 0
		switch {
		case apart[match[1]] != "":
			r.further++
			if ok {
				r.furtherPassed++
			} else if apart[match[1]] != extension {
				r.failed = append(r.failed, match[1])
			}
		case ok:
			r.scenarios, r.passed, r.checks = r.scenarios+1, r.passed+1, r.checks+passed
		default:
			r.scenarios, r.checks, r.failed = r.scenarios+1, r.checks+passed, append(r.failed, match[1])
		}
	}
	return r
}

func (r suiteResult) summary() string {
	text := fmt.Sprintf("%d of %d scenarios passed, with %d checks", r.passed, r.scenarios, r.checks)
	if r.further > 0 {
		text += fmt.Sprintf("; of %d that do not count, %d", r.further, r.furtherPassed)
	}
	return text
}

// complaints are the lines that say what failed.
func (r suiteResult) complaints(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if strings.Contains(line, "Error") || strings.Contains(line, "FAILURE") || strings.Contains(line, "✗") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lastBytes(strings.Join(lines, "\n"), 3000)
}
