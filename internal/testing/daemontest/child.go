package daemontest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// The variables that make the test program a daemon instead of a test.
const (
	childVariable = "DAEMON_TEST_DIR"
	childConfig   = "DAEMON_TEST_CONFIG"
)

// runChild is the daemon in a process of its own: it prints its address and runs until it is
// killed, or until its parent is gone.
func runChild() int {
	g, err := Launch(context.Background(), Sources(os.Getenv(childConfig), os.Getenv(childVariable)), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(g.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	g.Daemon.Stop(context.Background())
	return 0
}

// A Child is a daemon in a process of its own.
type Child struct {
	command *exec.Cmd
	URL     string
}

// StartChild runs a daemon in a process of its own, which is the test program again: its TestMain
// calls Main.
func StartChild(t *testing.T, config, dir string) *Child {
	t.Helper()
	c := &Child{command: exec.CommandContext(t.Context(), os.Args[0])}
	c.command.Env = append(os.Environ(), childVariable+"="+dir, childConfig+"="+config)
	c.command.Stderr = os.Stderr
	if _, err := c.command.StdinPipe(); err != nil { // open as long as we are there
		t.Fatal(err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		_ = await.Result(t, c.command.Wait, "the end of the daemon")
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon did not start: %v", err)
	}
	c.URL = strings.TrimSpace(line)
	return c
}

// Kill ends the process without a warning.
func (c *Child) Kill(t *testing.T) {
	t.Helper()
	if err := c.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = await.Result(t, c.command.Wait, "the end of the daemon") // its error is that it was killed
}
