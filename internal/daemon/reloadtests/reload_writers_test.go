//go:build unix

package reloadtests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A writer is a way in which programs replace the content of a file.
type writer struct {
	name    string
	program string // that it needs; empty means none
	write   func(path, text string) error
}

// run runs a program with text as its input.
func run(text, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin = strings.NewReader(text)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// beside writes text to a file in the same directory and returns its path.
func beside(path, text string) (string, error) {
	other := path + ".beside"
	return other, os.WriteFile(other, []byte(text), 0o600)
}

// from has a program read text from a file in the same directory.
func from(path, text string, do func(source string) error) error {
	source, err := beside(path, text)
	if err != nil {
		return err
	}
	return errors.Join(do(source), os.RemoveAll(source))
}

// pause gives the daemon time to read a file that is not complete.
//
// Real time: the daemon polls the file, and a test that is not paused has fewer chances to fail,
// but none to fail without reason.
func pause(polls time.Duration) { time.Sleep(polls * writersPoll) }

// inPieces writes in place, a few bytes at a time, with a pause after each that is longer than
// several polls.
func inPieces(path, text string, flags int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		return err
	}
	for piece := range strings.SplitAfterSeq(text, ":") {
		if _, err := f.WriteString(piece); err != nil {
			return err
		}
		pause(6)
	}
	return errors.Join(f.Truncate(int64(len(text))), f.Close())
}

// vim saves text over path in vim.
func vim(option string) func(path, text string) error {
	return func(path, text string) error {
		return from(path, text, func(source string) error {
			return run("", "vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-c", "set "+option, "-c", "%d", "-c", "0r "+source, "-c", "wq!", path)
		})
	}
}

var writers = []writer{
	{"truncate and write", "", func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }},
	{"truncate and write in pieces", "", func(path, text string) error { return inPieces(path, text, os.O_TRUNC) }},
	{"overwrite in place in pieces, as rsync --inplace", "", func(path, text string) error { return inPieces(path, text, 0) }},
	{"remove, pause, create", "", func(path, text string) error {
		err := os.Remove(path)
		pause(6)
		return errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
	}},
	{"append line by line", "", func(path, text string) error {
		err := os.Truncate(path, 0)
		for line := range strings.Lines(text) {
			f, openErr := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if openErr != nil {
				return openErr
			}
			_, writeErr := f.WriteString(line)
			err = errors.Join(err, writeErr, f.Close())
			pause(3)
		}
		return err
	}},
	{"older modification time", "", func(path, text string) error {
		old := time.Now().Add(-24 * time.Hour)
		return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, old, old))
	}},
	{"write beside and rename", "", func(path, text string) error {
		other, err := beside(path, text)
		return errors.Join(err, os.Rename(other, path))
	}},
	{"cp", "cp", func(path, text string) error {
		return from(path, text, func(source string) error { return run("", "cp", source, path) })
	}},
	{"cp --remove-destination", "cp", func(path, text string) error {
		return from(path, text, func(source string) error { return run("", "cp", "--remove-destination", source, path) })
	}},
	{"mv", "mv", func(path, text string) error {
		other, err := beside(path, text)
		return errors.Join(err, run("", "mv", other, path))
	}},
	{"install", "install", func(path, text string) error {
		return from(path, text, func(source string) error { return run("", "install", "-m", "600", source, path) })
	}},
	{"cat >", "sh", func(path, text string) error { return run(text, "sh", "-c", `cat > "$0"`, path) }},
	{"slow shell", "sh", func(path, text string) error {
		return run(text, "sh", "-c", `while IFS= read -r line; do printf '%s\n' "$line"; sleep 0.02; done > "$0"`, path)
	}},
	{"tee", "tee", func(path, text string) error { return run(text, "tee", path) }},
	{"dd bs=7", "dd", func(path, text string) error { return run(text, "dd", "bs=7", "of="+path) }},
	{"rsync --inplace", "rsync", func(path, text string) error {
		return from(path, text, func(source string) error { return run("", "rsync", "--inplace", "--ignore-times", source, path) })
	}},
	{"sed -i", "sed", func(path, text string) error {
		return from(path, text, func(source string) error { return run("", "sed", "-i", "-e", "1r "+source, "-e", "d", path) })
	}},
	{"vim, backupcopy=yes", "vim", vim("backupcopy=yes")},
	{"vim, backupcopy=no", "vim", vim("backupcopy=no")},
	{"vim, no backup", "vim", vim("nowritebackup")},
	{"link swapped, as a ConfigMap", "", func(path, text string) error {
		dir, err := os.MkdirTemp(filepath.Dir(path), "..")
		if err != nil {
			return err
		}
		data, next := filepath.Join(filepath.Dir(path), "..data"), path+".next"
		err = errors.Join(os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600),
			os.Symlink(filepath.Base(dir), data+"_tmp"), os.Rename(data+"_tmp", data))
		if _, linkErr := os.Readlink(path); linkErr != nil {
			err = errors.Join(err, os.Symlink("..data/config.yaml", next), os.Rename(next, path))
		}
		return err
	}},
}

const writersPoll = 5 * time.Millisecond

// However the file is written, with whatever pauses: no call without a key is answered, no call is
// answered by the simulator, and what the file says in the end is in force.
func TestReloadWhileProgramsWriteTheFile(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	provider := daemontest.NewStage(t)
	close(provider.GoOn)
	content := func(n int) string {
		return fmt.Sprintf("# edition %d\nlog: info\nkeys:\n  - {name: laptop, secret: secret-of-the-laptop}\n  - {name: e, secret: \"secret-of-edition-%06d\"}\n", n, n) + provider.Config("")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	src := config.Sources{Path: path, Flags: map[string]string{"listen": "127.0.0.1:0", "data_dir": daemontest.DataDir(t)}, Env: func(string) (string, bool) { return "", false }}
	var clock skippingClock
	g := daemontest.StartIn(t, src, func(o *daemon.Options) { o.Poll, o.Now = writersPoll, clock.now })
	calls := callAllTheTime(t, g, &clock)
	edition := 0
	for range 2 { // the second time over a file that each of the other writers has left
		for _, w := range writers {
			if w.program != "" {
				if _, err := exec.LookPath(w.program); err != nil {
					t.Logf("%s: not on this machine", w.name)
					continue
				}
			}
			edition++
			if err := w.write(path, content(edition)); err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			await.Until(t, w.name+" is in force", func() bool {
				return daemontest.Status(t, g, daemontest.Streaming, fmt.Sprintf("secret-of-edition-%06d", edition)) == http.StatusOK
			})
			if calls.open.Load() > 0 || calls.simulated.Load() > 0 {
				t.Fatalf("%s: %d calls without a key were answered, %d by the simulator", w.name, calls.open.Load(), calls.simulated.Load())
			}
		}
	}
	if calls.refused.Load() == 0 || calls.answered.Load() == 0 {
		t.Errorf("%d calls refused, %d answered: nothing was tried", calls.refused.Load(), calls.answered.Load())
	}
}

// callCounts count calls by what came of them.
type callCounts struct{ open, simulated, refused, answered atomic.Int64 }

// callAllTheTime makes calls with and without a key until the test ends.
func callAllTheTime(t *testing.T, g *daemontest.Gateway, clock *skippingClock) *callCounts {
	counts := new(callCounts)
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); await.Receive(t, done, "the last call") })
	one := func(key string) {
		req, _ := http.NewRequest(http.MethodPost, g.URL()+"/v1beta/models/gemini-2.5-flash:"+daemontest.Streaming, strings.NewReader(daemontest.Question))
		if key != "" {
			req.Header.Set("X-Goog-Api-Key", key)
		}
		resp, err := daemontest.Client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		switch {
		case resp.Header.Get("X-Perigee-Upstream") == daemon.SimulatorName:
			counts.simulated.Add(1)
		case key == "" && resp.StatusCode == http.StatusOK:
			counts.open.Add(1)
		case key == "" && resp.StatusCode == http.StatusUnauthorized:
			counts.refused.Add(1)
		case resp.StatusCode == http.StatusOK:
			counts.answered.Add(1)
		}
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				clock.skip()
				one("")
				one("secret-of-the-laptop")
			}
		}
	}()
	return counts
}
