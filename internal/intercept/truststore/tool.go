package truststore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/lib/procgroup"
	"perigee/internal/lib/terminal"
)

// toolTime is how long a tool may run. update-ca-certificates takes seconds, and a minute with a
// Java keystore on a slow disk.
const toolTime = 5 * time.Minute

// adminDirs are directories that the PATH of users lacks on many systems.
var adminDirs = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// find returns the path of a tool.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range adminDirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// run runs a tool to its end, also when ctx ends or Ctrl-C is pressed, because a tool that is
// killed leaves the store half written. The tool has no terminal, so that it cannot wait for a
// password. It inherits the lock: if perigee is killed, the tool continues, and the next command
// waits for it.
func (m Machine) run(ctx context.Context, input []byte, command ...string) (output string, err error) {
	path, err := find(command[0])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, command[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(input)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	procgroup.Detach(cmd)
	procgroup.Inherit(cmd, m.Held)
	if err := cmd.Run(); err != nil {
		output := lastLines(complaints.String() + "\n" + out.String())
		return out.String(), &toolError{command[0], output, err}
	}
	return out.String(), nil
}

// A toolError is the error of a tool that failed, with its output.
type toolError struct {
	name, output string
	err          error
}

func (e *toolError) Error() string {
	if e.output == "" {
		return fmt.Sprintf("%s: %v", e.name, e.err)
	}
	return fmt.Sprintf("%s: %v: %s", e.name, e.err, e.output)
}

func (e *toolError) Unwrap() error { return e.err }

// lastLines returns the end of an output, in one line.
func lastLines(text string) string {
	const most = 400
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// asRoot adds the commands for a shell to an error, if a user other than root gets it.
func asRoot(err error, commands [][]string) error {
	if err == nil || !errors.Is(err, os.ErrPermission) && (os.Geteuid() <= 0 || !isExit(err)) {
		return err // Geteuid is -1 on Windows
	}
	return fmt.Errorf("%w; this needs root: run %s, and then this command again, which checks the result", err, shellLine(commands, true))
}

func isExit(err error) bool {
	_, ok := errors.AsType[*exec.ExitError](err)
	return ok
}

// shellLine joins commands so that a shell runs each if the one before it succeeded.
func shellLine(commands [][]string, root bool) string {
	var lines []string
	for _, command := range commands {
		var words []string
		if root && os.PathSeparator == '/' {
			words = append(words, "sudo")
		}
		for _, word := range command {
			words = append(words, terminal.ShellWord(word))
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, " && ")
}
