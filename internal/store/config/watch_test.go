package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A watched is a watcher whose polls are made by hand, and what it said since last asked.
type watched struct {
	*Watcher
	t    *testing.T
	path string
	said []string
}

func watchIn(t *testing.T, text string) *watched {
	t.Helper()
	dir, src := inDir(t, nil)
	w := &watched{t: t, path: filepath.Join(dir, "etc", "perigee", "config.yaml")}
	if text != "" {
		write(t, w.path, text)
	}
	current, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	w.Watcher = NewWatcher(src, current,
		func(l *Loaded) { w.said = append(w.said, "good "+l.Config.Log+secretsOf(l)) },
		func(err error) { w.said = append(w.said, "bad "+err.Error()) })
	return w
}

func secretsOf(l *Loaded) string {
	text := ""
	for _, k := range l.Config.Keys {
		text += " " + k.Secret.Reveal()
	}
	return text
}

// expect polls as often as a change takes to count and compares what was said: nothing before the
// last poll.
func (w *watched) expect(want ...string) {
	w.t.Helper()
	w.said = nil
	w.poll()
	if len(w.said) > 0 {
		w.t.Fatalf("said %q after one read", w.said)
	}
	w.once(want...)
}

// once polls once and compares what was said.
func (w *watched) once(want ...string) {
	w.t.Helper()
	w.said = nil
	w.poll()
	if len(w.said) != len(want) {
		w.t.Fatalf("said %q, want %q", w.said, want)
	}
	for i := range want {
		if !strings.Contains(w.said[i], want[i]) {
			w.t.Fatalf("said %q, want %q", w.said, want)
		}
	}
}

func TestWatchTellsOfNewContentOnly(t *testing.T) {
	w := watchIn(t, "log: info\n")
	w.expect()
	write(t, w.path, "log: warn\n")
	w.expect("good warn")
	w.expect()
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(w.path, later, later); err != nil {
		t.Fatal(err)
	}
	w.expect() // touched, not changed
}

func TestWatchSeesAnEditThatLooksTheSame(t *testing.T) {
	w := watchIn(t, "log: info\n")
	old := time.Now().Add(-time.Hour)
	for _, word := range []string{"warn", "info"} { // the same size and time, on the same file
		write(t, w.path, "log: "+word+"\n")
		if err := os.Chtimes(w.path, old, old); err != nil {
			t.Fatal(err)
		}
		if word == "warn" {
			w.expect("good warn")
		} else {
			w.expect("good info")
		}
		w.expect()
	}
}

func TestWatchKeepsTheLastGoodConfiguration(t *testing.T) {
	w := watchIn(t, "log: info\n")
	write(t, w.path, "log: lod\n")
	w.expect("config.yaml:1:6: log: expected one of")
	w.expect() // once for each content
	w.expect()
	write(t, w.path, "log: [\n")
	w.expect("not valid YAML")
	write(t, w.path, "log: warn\n")
	w.expect("good warn")
}

func TestWatchSeesASaveByRename(t *testing.T) {
	w := watchIn(t, "log: info\n")
	w.expect()
	write(t, w.path+".tmp", "log: warn\n")
	if err := os.Rename(w.path+".tmp", w.path); err != nil {
		t.Fatal(err)
	}
	w.expect("good warn")
}

func TestWatchSeesASwappedLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir, src := inDir(t, nil)
	write(t, filepath.Join(dir, "v1", "config.yaml"), "log: info\n")
	write(t, filepath.Join(dir, "v2", "config.yaml"), "log: warn\n")
	link := func(target string) {
		t.Helper()
		if err := errors.Join(os.Symlink(target, filepath.Join(dir, "next")), os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	src.Path = filepath.Join(dir, "data", "config.yaml")
	current, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	w := NewWatcher(src, current, func(l *Loaded) { got = l.Config.Log }, func(err error) { t.Error(err) })
	w.poll()
	link("v2")
	w.poll()
	w.poll()
	if got != "warn" {
		t.Errorf("log is %q after the link was swapped", got)
	}
}

func TestWatchSeesAFileThatIsCreated(t *testing.T) {
	w := watchIn(t, "")
	w.expect()
	write(t, w.path, "log: warn\n")
	w.expect("good warn")
}

func TestWatchDoesNotObeyAFileThatIsGone(t *testing.T) {
	w := watchIn(t, "log: info\nkeys: [{name: a, secret: long-enough}]\n")
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.expect("is gone; its last content stays in force")
	w.expect()
	write(t, w.path, "log: warn\n")
	w.expect("good warn")
}

// Content that only one read has seen is a file that is being written.
func TestWatchTakesWhatTwoReadsAgreeOn(t *testing.T) {
	w := watchIn(t, "log: debug\n")
	for _, text := range []string{"", "log: info\n", "log: error\nstrict: t", "# log\n", "log: warn\n"} {
		write(t, w.path, text)
		w.once()
	}
	w.once("good warn")
	write(t, w.path, "log: error\n")
	w.once()
	write(t, w.path, "log: warn\n") // back to what is in force
	w.expect()
	write(t, w.path, "log: error") // probably not all of it
	w.expect()
	w.once("good error")
}

func TestWatchDoesNotObeyAnEmptyFile(t *testing.T) {
	for _, text := range []string{"", "\n", " \n\n", "# nothing\n", "---\n", "---\n# nothing\n...\n", "null\n", "~\n", "\ufeff\n"} {
		w := watchIn(t, "log: debug\n")
		write(t, w.path, text)
		w.expect("is empty; its last content stays in force")
		w.expect()
		write(t, w.path, "log: error\n")
		w.expect("good error")
	}
	w := watchIn(t, "# an annotated file\n") // in force as it is
	write(t, w.path, "# another one\n")
	w.expect("good info")
}

func TestWatchFollowsSecretFiles(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, "first-secret\n")
	w := watchIn(t, "keys: [{name: a, secret: \"file:"+filepath.ToSlash(secret)+"\"}]\n")
	w.expect()
	write(t, secret, "second-secret\n")
	w.expect("good info second-secret")
	write(t, secret, "two\nlines\n")
	w.expect("holds a line break")
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	w.expect("does not exist")
	write(t, secret, "third-secret\n")
	w.expect("good info third-secret")
}

func TestWatchPollsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text atomic.Value
		text.Store("log: info\n")
		src := Sources{
			Path: "config.yaml", HomeDir: "/h", Env: func(string) (string, bool) { return "", false },
			ReadFile: func(string) ([]byte, error) { return []byte(text.Load().(string)), nil },
		}
		current, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			NewWatcher(src, current, func(l *Loaded) { got = append(got, l.Config.Log) }, func(err error) { t.Error(err) }).Run(ctx, time.Second)
		}()
		synctest.Wait()
		text.Store("log: warn\n")
		<-time.After(2500 * time.Millisecond)
		synctest.Wait()
		if len(got) != 1 || got[0] != "warn" {
			t.Errorf("after two ticks: %q", got)
		}
		cancel()
		<-done
	})
}

// A file that appears takes the place of the key in the environment.
func TestWatchFindsAFileBesideTheKeyOfTheEnvironment(t *testing.T) {
	dir, src := inDir(t, map[string]string{"GEMINI_API_KEY": "a-key-of-the-test"})
	src.system, src.ConfigDir = "darwin", "" // where there are two places
	current, err := Load(src)
	if err != nil || len(current.Environment) != 1 {
		t.Fatalf("%+v, %v", current, err)
	}
	var found []*Loaded
	w := NewWatcher(src, current, func(l *Loaded) { found = append(found, l) }, func(err error) { t.Error(err) })
	path := filepath.Join(dir, "home", "Library", "Application Support", "perigee", "config.yaml")
	write(t, path, "upstreams: [{name: mine, kind: simulator}]\n")
	for range 3 {
		w.poll()
	}
	if len(found) != 1 || found[0].Path != path || found[0].Environment != nil || len(found[0].Config.Upstreams) != 1 || found[0].Config.Upstreams[0].Name != "mine" {
		t.Errorf("found %+v", found)
	}
}
