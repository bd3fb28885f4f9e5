package headless

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// files are the files below a directory that have a text in their name or content.
func files(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // it may be gone
		}
		content, _ := os.ReadFile(path)
		for _, text := range texts {
			if strings.Contains(path, text) || strings.Contains(string(content), text) {
				found = append(found, path)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// left is what a language server and its files have of conversations. An implicit one of the editor
// is not counted.
func (r *rig) left() (conversations []string, found []string) {
	r.t.Helper()
	list, err := r.client.Conversations(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	texts := []string{"a secret answer"}
	for _, e := range r.agentRequests() {
		texts = append(texts, e.cascade())
	}
	return slices.Sorted(maps.Keys(list)), files(r.t, r.dir, texts...)
}

func oneShot(n int) perigee.Prompt {
	return perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, fmt.Sprintf("[[text: a secret answer %d]]", n))}}
}

// Calls that are not continued leave nothing: no conversation in the language server, no file with
// an answer, no row in a topic.
func TestConversationsAreDeleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ profile, settings string }{{"classic", "generation=classic"}, {"classic", "store=db"}, {"hub", "generation=hub store=db"}} {
		t.Run(c.settings, func(t *testing.T) {
			t.Parallel()
			r := signedIn(t, func(o *Options) {
				o.Upstream.Profile, o.Upstream.Env, o.delays.keep = c.profile, map[string]string{"PERIGEE_STANDIN": c.settings}, time.Millisecond
			})
			calls := 100
			if testing.Short() {
				calls = 8
			}
			for n := range calls {
				if events, err := r.call(t.Context(), "gemini-3-flash", oneShot(n)); err != nil || written(events) != fmt.Sprintf("a secret answer %d", n) {
					t.Fatalf("got %+v, %v", events, err)
				}
			}
			if n := len(r.agentRequests()); n != calls {
				t.Fatalf("the cloud got %d requests", n)
			}
			await.Until(t, "no conversation and no file", func() bool {
				conversations, found := r.left()
				return len(conversations) == 0 && len(found) == 0
			})
			if marks, err := os.ReadDir(ownDir(r.opts)); err != nil || len(marks) > 0 {
				t.Errorf("%d marks are left, %v", len(marks), err)
			}
		})
	}
}

// Calls that fail, or whose client leaves, leave nothing either.
func TestConversationsOfFailedCallsAreDeleted(t *testing.T) {
	t.Parallel()
	r := signedIn(t, nil)
	if _, err := r.call(t.Context(), "gemini-9-unheard-of", oneShot(1)); err == nil {
		t.Error("an unknown model answers")
	}
	ctx, cancel := context.WithCancel(t.Context())
	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{text(perigee.RoleUser, "[[pace: 200ms]] [[chunks: 200]] [[tokens: 500]]")}}, nil
	})
	for event, err := range r.upstream.Stream(ctx, request) {
		if err == nil && event.Kind == perigee.EventText {
			cancel()
		}
	}
	cancel()
	if n := len(r.agentRequests()); n != 2 {
		t.Fatalf("the cloud got %d requests", n)
	}
	await.Until(t, "no conversation and no file", func() bool {
		conversations, found := r.left()
		return len(conversations) == 0 && len(found) == 0
	})
}

// A conversation that can still be continued is there until the end of perigee.
func TestConversationsAreDeletedAtTheEnd(t *testing.T) {
	t.Parallel()
	r := signedIn(t, func(o *Options) { o.delays.keep = time.Hour })
	if _, err := r.call(t.Context(), "gemini-3-flash", oneShot(1)); err != nil {
		t.Fatal(err)
	}
	if conversations, found := r.left(); len(conversations) != 1 || len(found) == 0 {
		t.Errorf("before: conversations %q, files %q", conversations, found)
	}
	await.Until(t, "the end of the turn", func() bool { return len(files(t, r.dir, "transcript.jsonl")) == 1 })
	if err := r.upstream.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := files(t, r.dir, "a secret answer", r.agentRequests()[0].cascade()); len(found) > 0 {
		t.Errorf("files %q", found)
	}
}

// What a run of perigee that was killed has left is removed at the next start. Conversations that
// perigee did not start stay.
func TestConversationsOfAnEarlierRunAreDeleted(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic", "store=db"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			change := func(o *Options) {
				o.delays.keep, o.Upstream.Env = time.Hour, map[string]string{"PERIGEE_STANDIN": settings}
			}
			r := signedIn(t, change)
			if _, err := r.call(t.Context(), "gemini-3-flash", oneShot(1)); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the end of the turn", func() bool { return len(files(t, r.dir, "transcript.jsonl")) == 1 })
			cascade := r.agentRequests()[0].cascade()
			foreign := strings.Replace(cascade, cascade[:8], "0f0f0f0f", 1)
			dir := t.TempDir()
			// The files of a run that was killed, beside a conversation that it has not started.
			if err := os.CopyFS(dir, os.DirFS(r.opts.DataDir)); err != nil {
				t.Fatal(err)
			}
			mark := filepath.Join(dir, "langserver", "desk", "conversations", cascade)
			if err := os.WriteFile(mark, []byte("EARLIERRUN 1"), 0o600); err != nil {
				t.Fatal(err)
			}
			brain := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(files(t, dir, "transcript.jsonl")[0]))))
			if err := os.Rename(filepath.Join(brain, cascade), filepath.Join(brain, foreign)); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(filepath.Join(brain, cascade), os.DirFS(filepath.Join(brain, foreign))); err != nil {
				t.Fatal(err)
			}
			next := signedIn(t, func(o *Options) { change(o); o.DataDir = dir })
			await.Until(t, "no conversation of the earlier run", func() bool { _, err := os.Stat(mark); return err != nil })
			if found := files(t, dir, cascade); len(found) > 0 {
				t.Errorf("files %q", found)
			}
			if list, err := next.client.Conversations(t.Context()); err != nil || list[cascade] != nil {
				t.Errorf("conversations %v, %v", list, err)
			}
			if found := files(t, dir, foreign); len(found) != 1 {
				t.Errorf("files of another conversation: %q", found)
			}
			next.wants("ready", func(s supervisor.Status) bool { return s.State == supervisor.Ready })
		})
	}
}

// Links in the home of the process do not lead perigee to other files.
func TestRemovedFilesAreThoseOfTheHome(t *testing.T) {
	const id = "01234567-89ab-cdef-0123-456789abcdef"
	s := New(Options{DataDir: t.TempDir(), Upstream: config.Upstream{Name: "headless"}, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	outside, gemini := t.TempDir(), filepath.Join(s.home(), ".gemini")
	for _, dir := range []string{filepath.Join(outside, "theirs", id), filepath.Join(gemini, "app", "brain", id), filepath.Join(gemini, "app", "brain", "Documents")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(gemini, "link")); err != nil {
		t.Skip(err)
	}
	s.removeFiles(id)
	s.removeFiles("Documents") // an ID that a server may name
	for path, stays := range map[string]bool{
		filepath.Join(outside, "theirs", id): true, filepath.Join(gemini, "app", "brain", id): false, filepath.Join(gemini, "app", "brain", "Documents"): true,
	} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
}
