package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	sdkInstall       = "sdks"
	frameworkInstall = "frameworks" // older libraries of Google's, and what is built on them
)

var (
	socketScenarios = []string{question, toolLoop, parallel, image, refusal, rateLimit}
	sdkScenarios    = append(slices.Clone(socketScenarios), usedUp)
)

// javascriptSDKs are the libraries that clients/*.mjs use, each dialect of each as a client of its
// own.
func javascriptSDKs() []client {
	withRunner := append(slices.Clone(sdkScenarios), toolRun)
	return []client{
		javascript("openai js chat", "openai", sdkScenarios, "openai.mjs", "chat"),
		javascript("openai js responses", "openai", sdkScenarios, "openai.mjs", "responses"),
		javascript("openai js responses socket", "openai", socketScenarios, "openai_socket.mjs"),
		javascript("anthropic js", "@anthropic-ai/sdk", withRunner, "anthropic.mjs", "@anthropic-ai/sdk"),
		javascript("anthropic js 0.x", "anthropic-sdk-0", withRunner, "anthropic.mjs", "anthropic-sdk-0"),
		javascript("genai js", "@google/genai", sdkScenarios, "genai.mjs"),
		javascript("ai sdk openai", "ai", sdkScenarios, "ai.mjs", "openai"),
		javascript("ai sdk openai chat", "ai", sdkScenarios, "ai.mjs", "openai-chat"),
		javascript("ai sdk openai-compatible", "ai", sdkScenarios, "ai.mjs", "openai-compatible"),
		javascript("ai sdk anthropic", "ai", sdkScenarios, "ai.mjs", "anthropic"),
		javascript("ai sdk google", "ai", sdkScenarios, "ai.mjs", "google"),
	}
}

func javascript(name, library string, scenarios []string, script ...string) client {
	return javascriptIn(sdkInstall, name, library, scenarios, script...)
}

// javascriptIn is a client that runs a script, with arguments, beside the installed modules.
func javascriptIn(install, name, library string, scenarios []string, script ...string) client {
	return client{
		name: name, version: pinnedPackage(install, library), install: install, scenarios: scenarios,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			// Modules are looked for beside the script, so the scripts go where the modules are.
			for _, file := range []string{"scenario.mjs", script[0]} {
				if err := copyFile(filepath.Join("e2e", "clients", file), cached(install, file)); err != nil {
					r.addAll(c, err)
					return
				}
			}
			runScript(ctx, s, c, r, append([]string{"node", cached(install, script[0])}, script[1:]...))
		},
	}
}

func goSDKs() []client {
	withRunner := append(slices.Clone(sdkScenarios), toolRun)
	return []client{
		golang("openai go chat", "github.com/openai/openai-go/v3", sdkScenarios, "chat"),
		golang("openai go responses", "github.com/openai/openai-go/v3", sdkScenarios, "responses"),
		golang("openai go responses socket", "github.com/openai/openai-go/v3", socketScenarios, "socket"),
		golang("anthropic go", "github.com/anthropics/anthropic-sdk-go", withRunner, "anthropic"),
		golang("genai go", "google.golang.org/genai", sdkScenarios, "genai"),
	}
}

func golang(name, module string, scenarios []string, arg string) client {
	return client{
		name: name, version: pinnedModule(module), install: goInstall, scenarios: scenarios,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			runScript(ctx, s, c, r, []string{cached(goInstall, "gosdk"), arg})
		},
	}
}

// oldGenai is an older version of Google's Go library, in a module of its own: a program has one
// version of each module.
func oldGenai() client {
	const module = "google.golang.org/genai"
	return client{
		name: "stream genai go older", version: pinnedIn(oldGoInstall, module), install: oldGoInstall, scenarios: streamScenarios,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			runScript(ctx, s, c, r, []string{cached(oldGoInstall, oldGoInstall)})
		},
	}
}

// runScript runs a client that does all its scenarios in one process and tells a line about each.
func runScript(ctx context.Context, s *stage, c client, r *report, argv []string) {
	simulated, err := s.simulated, error(nil)
	switch {
	case c.carried:
		simulated, err = s.serveCarried(ctx)
	case c.simulator:
		simulated, err = s.serveSimulator(ctx)
	case c.provider != nil:
		var daemon *served
		if daemon, err = s.serveFrom(ctx, c.provider); err == nil {
			simulated = daemon.daemon
		}
	}
	if err != nil {
		r.addAll(c, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{
		"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"),
		"PERIGEE_SIMULATED=" + simulated, "PERIGEE_WATCHED=" + s.watched, "PERIGEE_WITNESS=" + s.witness.url,
		"PERIGEE_SHAKY=" + s.shaky,
		"PERIGEE_KEY=" + s.key, "PERIGEE_LIMITED_KEY=" + s.limitedKey(),
		"PERIGEE_PICTURE=" + base64.StdEncoding.EncodeToString(s.witness.png),
		"PERIGEE_SCENARIOS=" + strings.Join(c.scenarios, ","),
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.addAll(c, err)
		return
	}
	waiting := slices.Clone(c.scenarios)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		scenario, failure, ok := parseLine(lines.Text())
		at := slices.Index(waiting, scenario)
		if !ok || at < 0 {
			continue
		}
		waiting = slices.Delete(waiting, at, at+1)
		r.add(c, scenario, failure)
	}
	err = cmd.Wait()
	for _, scenario := range waiting {
		r.add(c, scenario, fmt.Errorf("the client ended without a result (%v): %s", err, firstLines(stderr.String(), 8)))
	}
}

// parseLine reads "pass NAME" or "fail NAME: why".
func parseLine(line string) (scenario string, failure error, ok bool) {
	if scenario, ok := strings.CutPrefix(line, "pass "); ok {
		return scenario, nil, true
	}
	if rest, ok := strings.CutPrefix(line, "fail "); ok {
		scenario, why, _ := strings.Cut(rest, ": ")
		return scenario, errors.New(why), true
	}
	return "", nil, false
}

// addAll tells that no scenario of a client could run.
func (r *report) addAll(c client, err error) {
	for _, scenario := range c.scenarios {
		r.add(c, scenario, err)
	}
}
