package trajectory

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A conversation in a file is found and followed without a language server, while it is being
// written.
func TestAFileIsFoundAndFollowed(t *testing.T) {
	perigeetest.Slow(t)
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "encrypted.pb"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			other := newConversationFile(t, dir, "other", journal, "file:///code/b")
			other.add(said("hello", time.Now()))
			submitted := time.Now()
			f := newConversationFile(t, dir, "ours", journal, "file:///code/a")
			f.add(said("before", submitted.Add(-time.Hour)), answered("x"))
			writing := make(chan error, 1)
			found := make(chan Match, 1)
			go func() {
				m, err := Find(t.Context(), Query{Prompt: "hello", Workspaces: []string{"/code/a"}, Since: submitted},
					[]Source{ConversationFilesSource(dir)}, readers(Database{Dir: dir}))
				found <- m
				writing <- err
			}()
			f.add(said("hello", time.Now()))
			m, err := await.Receive(t, found, "the conversation"), await.Receive(t, writing, "the end of the search")
			if err != nil || m.Conversation != "ours" || m.Step != 2 {
				t.Fatalf("got %+v, %v", m, err)
			}
			f.add(answered("Hello there."))
			text := ""
			for event, err := range events(t.Context(), m, nil) {
				if err != nil {
					t.Fatal(err)
				}
				switch event.Kind {
				case KindText:
					text += event.Text
				case KindDone:
					text += " " + string(event.Reason)
				}
			}
			if text != "Hello there. done" {
				t.Errorf("got %q", text)
			}
			if lines := problems(m); len(lines) != 1 { // the encrypted file, which was written since
				t.Errorf("got %q", lines)
			}
		})
	}
}
