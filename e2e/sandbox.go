package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// How the process outside tells the one inside what it prepared.
const (
	missingVariable = "PERIGEE_E2E_MISSING"
	perigeeVariable = "PERIGEE_E2E_PERIGEE"
)

// insideSandbox reports whether this process was started by enterSandbox, and which installs it
// found missing.
func insideSandbox() (missing map[string]string, ok bool) {
	encoded, ok := os.LookupEnv(missingVariable)
	if !ok || json.Unmarshal([]byte(encoded), &missing) != nil {
		return nil, false
	}
	return missing, true
}

// enterSandbox runs this program again where there is no network but loopback. Without such a place
// ran is false, and the caller goes on as it is.
func enterSandbox(ctx context.Context, args []string, missing map[string]string, perigee string, out io.Writer) (ran, passed bool, err error) {
	unshare := []string{"unshare", "--net"}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	const raiseLoopback = `ip link set lo up && exec "$@"`
	unshare = append(unshare, "--", "sh", "-c", raiseLoopback, "sh")

	if output, err := exec.CommandContext(ctx, unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		fmt.Fprintf(out, "no network namespace can be had here (%v: %s); the clients run with the network as it is\n", err, strings.TrimSpace(string(output)))
		return false, false, nil
	}
	self, err := os.Executable()
	if err != nil {
		return true, false, fmt.Errorf("find this program to run it again: %w", err)
	}
	encoded, err := json.Marshal(missing)
	if err != nil {
		return true, false, err
	}
	fmt.Fprintln(out, "clients and daemons run in a network namespace that has only loopback")
	cmd := exec.CommandContext(ctx, unshare[0], append(append(unshare[1:], self), args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), missingVariable+"="+string(encoded), perigeeVariable+"="+perigee)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	err = cmd.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return true, false, nil // it has said why
	}
	return true, err == nil, err
}
