package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"perigee/internal/store/config"
)

// checkExits runs the commands of a table and holds their exit codes against it. A line is a code
// and the arguments of perigee; a line that begins with # says what the cause is of those that
// follow. Every error must say something.
func checkExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: exits TABLE")
	}
	cause, wrong := "", 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "#" {
			cause = strings.TrimPrefix(line, "# ")
			continue
		}
		code, said := exitOf(ts, words[1:])
		if fmt.Sprint(code) != words[0] || code != 0 && !strings.HasPrefix(said, "perigee: ") {
			wrong++
			ts.Logf("%s: perigee %s ends with %d, want %s:\n%s", cause, strings.Join(words[1:], " "), code, words[0], said)
		}
	}
	if wrong > 0 {
		ts.Fatalf("%d exit codes are wrong", wrong)
	}
}

func exitOf(ts *testscript.TestScript, args []string) (code int, said string) {
	cmd := exec.CommandContext(limited(ts), "perigee", args...)
	if path, err := exec.LookPath("perigee"); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"),
		"XDG_DATA_HOME="+ts.Getenv("XDG_DATA_HOME"), "PERIGEE_KEYRING=off", "PERIGEE_IDE="+filepath.Join(cmd.Dir, "nowhere"))
	for _, name := range config.KeyVariables() {
		cmd.Env = append(cmd.Env, name+"=")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), stderr.String()
	}
	ts.Check(err)
	return 0, stderr.String()
}
