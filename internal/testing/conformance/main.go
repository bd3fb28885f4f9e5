//go:build unix

// Command conformance runs the Connect conformance suite against its own reference server: alone,
// with the middleware of internal/langserver/connectframe in front of its methods, and behind the
// interception proxy of internal/intercept/mitm. The suite keeps that server internal to its
// module, so the server with the middleware is built from a copy of the module that has our package
// and one changed call.
//
//	go run ./internal/testing/conformance [-short]
//
// With -short, the middleware as the protocol wants it is compared with the proxy, without the runs
// beside them.
//
// The directory suite is a module of its own, which has the version of the suite and nothing to
// import.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"perigee/internal/lib/procgroup"
)

const (
	suite      = "connectrpc.com/conformance"
	module     = "internal/testing/conformance/suite" // that requires it
	roleBehind = "behind"                             // the first argument of this program when it is a server for the suite

	patience = 3 * time.Minute // for one run, which takes 12 seconds
)

// A run is one pass of the suite.
type run struct {
	name       string
	middleware string   // value of MIDDLEWARE for the server, "" if it has none
	differs    []string // cases that must fail, because the middleware accepts what the protocol does not allow
	proxied    bool     // the server is behind an interception proxy; only cases with TLS, which are half of all
	short      bool     // also with -short
}

var runs = []run{
	{name: "reference server"},
	{name: "with AcceptBare, empty bodies as in the protocol", middleware: "protocol", short: true},
	{name: "with AcceptBare and EitherForm", middleware: "lenient", differs: []string{"**/no-request"}},
	{name: "behind the interception proxy", proxied: true, short: true},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == roleBehind {
		if err := behind(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "make the two runs that every change needs")
	flag.Parse()
	if err := conformance(*short); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func conformance(short bool) error {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	runner, plain, wrapped, err := build(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%-50s %7s %7s %9s %8s\n", "Connect conformance suite", "cases", "passed", "expected", "seconds")
	var first result
	for _, run := range runs {
		if short && !run.short {
			continue
		}
		server := plain
		if run.middleware != "" {
			server = wrapped
		}
		result, err := run.start(runner, server)
		if err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
		fmt.Printf("%-50s %7d %7d %9d %8.1f\n", run.name, result.cases, result.passed, result.expected, result.took.Seconds())
		if first.cases == 0 {
			first = result
		}
		want := first
		if run.proxied {
			want.cases, want.passed = first.cases/2, first.passed/2
		}
		if result.cases == 0 || result.cases != want.cases || result.passed+result.expected != want.passed ||
			(result.expected > 0) != (len(run.differs) > 0) {
			return fmt.Errorf("%s: %+v, the first run: %+v", run.name, result, first)
		}
	}
	return nil
}

// A result counts cases: all, passed, and failed as expected.
type result struct {
	cases, passed, expected int
	took                    time.Duration
}

var (
	countLine    = regexp.MustCompile(`(?m)^Total cases: (\d+)\n(\d+) passed, 0 failed$`)
	expectedLine = regexp.MustCompile(`(?m)^\(Another (\d+) failed as expected`)
)

func (r run) start(runner, server string) (result, error) {
	arguments := []string{"--mode", "server", "--conf", module + "/suite.yaml"}
	servers := []string{server}
	if r.proxied {
		self, err := os.Executable()
		if err != nil {
			return result{}, err
		}
		arguments[3] = module + "/secure.yaml"
		servers = []string{self, roleBehind, server}
	}
	for _, pattern := range r.differs {
		arguments = append(arguments, "--known-failing", pattern)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, runner, append(append(arguments, "--"), servers...)...)
	procgroup.Own(command) // its servers are ended with it
	command.Env = append(os.Environ(), "MIDDLEWARE="+r.middleware)
	began := time.Now()
	output, err := command.CombinedOutput()
	took := time.Since(began)
	counts := countLine.FindSubmatch(output)
	if err != nil || counts == nil {
		return result{}, fmt.Errorf("not all cases passed within %v: %w\n%s", patience, errors.Join(err, ctx.Err()), last(output, 20_000))
	}
	found := result{cases: number(counts[1]), passed: number(counts[2]), took: took}
	if expected := expectedLine.FindSubmatch(output); expected != nil {
		found.expected = number(expected[1])
	}
	return found, nil
}

func number(digits []byte) (n int) {
	_, _ = fmt.Sscan(string(digits), &n)
	return n
}

func last(output []byte, n int) []byte { return output[max(0, len(output)-n):] }

// build returns the paths of the suite, and of its reference server without and with the
// middleware.
func build(dir string) (runner, plain, wrapped string, err error) {
	command := suite + "/cmd/referenceserver"
	if _, err := goTool("build", "-o", dir+"/plain/", suite+"/cmd/connectconformance", command); err != nil {
		return "", "", "", err
	}
	modfile, err := changeSuite(dir)
	if err != nil {
		return "", "", "", err
	}
	wrapped = dir + "/wrapped"
	if _, err := goTool("build", "-modfile", modfile, "-o", wrapped, command); err != nil {
		return "", "", "", err
	}
	return dir + "/plain/connectconformance", dir + "/plain/referenceserver", wrapped, nil
}

// changeSuite copies the suite, adds our package and puts it in front of the methods. It returns
// the path of a go.mod that uses the copy.
func changeSuite(dir string) (string, error) {
	source, err := goTool("list", "-m", "-f", "{{.Dir}}", suite)
	if err != nil {
		return "", err
	}
	changed := dir + "/suite"
	if err := os.CopyFS(changed, os.DirFS(source)); err != nil {
		return "", err
	}
	ours := changed + "/internal/langserver/connectframe/"
	if err := os.MkdirAll(ours, 0o700); err != nil {
		return "", err
	}
	files, err := filepath.Glob("internal/langserver/connectframe/*.go")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := copyFile(ours+filepath.Base(file), file); err != nil {
			return "", err
		}
	}
	if err := copyFile(ours+"wrap.go", module+"/wrap.go.txt"); err != nil {
		return "", err
	}
	err = edit(changed+"/internal/app/referenceserver/server.go",
		"mux.ServeHTTP(respWriter, req)", "connectframe.Wrap(mux).ServeHTTP(respWriter, req)",
		`"`+suite+`/internal/compression"`, `"`+suite+`/internal/compression"; "`+suite+`/internal/langserver/connectframe"`)
	if err != nil {
		return "", err
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		if err := copyFile(dir+"/"+file, module+"/"+file); err != nil {
			return "", err
		}
	}
	_, err = goTool("mod", "edit", "-replace", suite+"="+changed, dir+"/go.mod")
	return dir + "/go.mod", err
}

// edit replaces each old text of a file, which occurs exactly once, with the new one after it.
func edit(path string, texts ...string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for ; len(texts) > 0; texts = texts[2:] {
		if n := bytes.Count(source, []byte(texts[0])); n != 1 {
			return fmt.Errorf("%s has %d times %q, which must be there once: adapt the program to this version of the suite",
				filepath.Base(path), n, texts[0])
		}
		source = bytes.Replace(source, []byte(texts[0]), []byte(texts[1]), 1)
	}
	if err := os.Remove(path); err != nil { // the module cache is read-only, and so is its copy
		return err
	}
	return os.WriteFile(path, source, 0o600)
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func goTool(arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	command.Dir = module
	var errs bytes.Buffer
	command.Stderr = &errs
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(arguments, " "), err, errs.Bytes())
	}
	return strings.TrimSpace(string(output)), nil
}
