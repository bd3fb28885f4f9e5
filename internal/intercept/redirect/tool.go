package redirect

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
)

const toolPatience = 30 * time.Second

// find returns the path of a program. The PATH of root often lacks the directories for
// administration.
func find(name string) (string, bool) {
	for _, dir := range []string{"", "/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, true
		}
	}
	return "", false
}

func installed(name string) bool {
	_, ok := find(name)
	return ok
}

// run runs a program to its end and returns its output. If the program fails, the error has its
// output.
func run(ctx context.Context, input, name string, args ...string) (string, error) {
	path, ok := find(name)
	if !ok {
		return "", fmt.Errorf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(ctx, toolPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	cmd.Stdin = strings.NewReader(input)
	cmd.WaitDelay = time.Second
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if said := strings.Join(strings.Fields(problem.String()), " "); said != "" {
		err = errors.New(said)
	}
	if text := err.Error(); strings.Contains(text, "not permitted") || strings.Contains(text, "ermission denied") {
		err = fmt.Errorf("%w (in a container, this needs the capability NET_ADMIN)", err)
	}
	return "", fmt.Errorf("%s: %w", name, err)
}
