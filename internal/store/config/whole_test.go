package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	someKeys  = "keys: [{name: ada, secret: abcdefghijklmnopqrstuvwxyz}]\n"
	wholeFile = someKeys + "upstreams: [{name: a, kind: gemini, keys: [0123456789abcdefghijklmnop]}]\n" +
		"store: {url: \"postgres://u@localhost/p\"}\n"
)

// A start takes a file at once unless it lacks what it had, waits for one that is being written,
// and takes what stays.
func TestAwaitWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := Mark{true, true, true}
	for name, c := range map[string]struct {
		at     string // the file at the start
		before Mark
		later  []string // the file a second later, and each second after that
		lost   string
		after  time.Duration
		want   Mark
	}{
		"never started":             {at: "", want: Mark{}},
		"nothing lost":              {at: wholeFile, before: all, want: all},
		"more than before":          {at: wholeFile, before: Mark{}, want: all},
		"all lost, and it stays":    {at: "log: warn\n", before: all, lost: "keys and upstreams and store.url", after: 5 * time.Second, want: Mark{}},
		"being written":             {at: someKeys, before: all, later: []string{someKeys, wholeFile}, lost: "upstreams and store.url", after: 2 * time.Second, want: all},
		"written in three parts":    {at: "", before: all, later: []string{"", "", someKeys, "", "", wholeFile}, lost: "keys and upstreams and store.url", after: 6 * time.Second, want: all},
		"invalid in between":        {at: "", before: all, later: []string{"keys: [", wholeFile}, lost: "keys and upstreams and store.url", after: 2 * time.Second, want: all},
		"another change, and stays": {at: "", before: all, later: []string{"", "log: warn\n"}, lost: "keys and upstreams and store.url", after: 7 * time.Second, want: Mark{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			write(c.at)
			src := Sources{Path: path, Env: func(string) (string, bool) { return "", false }}
			loaded, err := Load(src)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			began := time.Now()
			go func() {
				for _, text := range c.later {
					time.Sleep(time.Second)
					write(text)
				}
			}()
			lost := ""
			got, err := AwaitWhole(t.Context(), src, loaded, c.before, func(sections string, _ time.Duration) { lost += sections })
			if err != nil || got.Mark() != c.want || lost != c.lost {
				t.Errorf("%s: %+v, %v, %q is lost", name, got, err, lost)
			}
			if took := time.Since(began).Truncate(time.Second); took != c.after {
				t.Errorf("%s: after %s", name, took)
			}
		})
	}
	write("")
	synctest.Test(t, func(t *testing.T) {
		loaded, _ := Load(Sources{Path: path})
		write("keys: [")
		if _, err := AwaitWhole(t.Context(), Sources{Path: path}, loaded, all, func(string, time.Duration) {}); err == nil {
			t.Error("an invalid file was taken")
		}
	})
	write("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	loaded, _ := Load(Sources{Path: path})
	if _, err := AwaitWhole(ctx, Sources{Path: path}, loaded, all, func(string, time.Duration) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after a signal: %v", err)
	}
}

// A mark survives; a broken one compares with nothing.
func TestMarkIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "started.json")
	m := Mark{true, false, true}
	if err := WriteMark(file, m); err != nil || ReadMark(file) != m {
		t.Errorf("%v, %+v", err, ReadMark(file))
	}
	before, _ := os.Stat(file)
	if err := WriteMark(file, m); err != nil {
		t.Error(err)
	}
	if after, _ := os.Stat(file); !os.SameFile(before, after) {
		t.Error("the same mark was written again")
	}
	for _, broken := range []string{"", "{", `{"keys":1}`, "\x00", `{"keys":true` + strings.Repeat(" ", 1<<20) + "}"} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadMark(file); got != (Mark{}) {
			t.Errorf("%q: %+v", broken, got)
		}
	}
}
