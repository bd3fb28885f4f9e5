package conversation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/langserver/trajectory"
)

// deleting is a scripted client that deletes conversations.
type deleting struct {
	scripted
	inputs map[string][]string // by conversation; the rest have the messages that were sent to them

	lock    sync.Mutex
	down    bool
	deleted []string
}

func (d *deleting) Delete(_ context.Context, cascade string) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.down {
		return errors.New("not reached")
	}
	d.deleted = append(d.deleted, cascade)
	return nil
}

func (d *deleting) Inputs(_ context.Context, cascade string) (texts []string, err error) {
	if texts, ok := d.inputs[cascade]; ok {
		return texts, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.messages {
		if m.cascade == cascade {
			texts = append(texts, m.Text)
		}
	}
	return texts, nil
}

func (d *deleting) gone() []string {
	d.lock.Lock()
	defer d.lock.Unlock()
	return slices.Sorted(slices.Values(d.deleted))
}

func marks(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func saying(n int) *perigee.Request {
	return request(true, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, fmt.Sprintf("hello %d", n))}})
}

// Conversations of calls in an IDE are deleted when they are not continued in time: by expiry, by
// the limit of kept ones, at the end.
func TestConversationsThatAreNotContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deleting{scripted: scripted{answer: says(text(1, "a"), done(trajectory.ReasonDone))}}
		dir := filepath.Join(t.TempDir(), "own")
		own := NewOwn(OwnOptions{Client: d, Dir: dir, Attached: true})
		u := New(Options{Client: d, Attached: true, Own: own, Keep: time.Minute})
		if r := ask(t.Context(), u, saying(1)); r.err != nil {
			t.Fatal(r.err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if len(d.gone()) != 0 || !slices.Equal(marks(t, dir), []string{"cascade-1"}) {
			t.Errorf("too early: %q", d.gone())
		}
		more := request(true, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "hello 1"), message(perigee.RoleModel, "a"), message(perigee.RoleUser, "more")}})
		if r := ask(t.Context(), u, more); r.err != nil || d.started != 1 {
			t.Errorf("not continued: %v", r.err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if len(d.gone()) != 0 {
			t.Errorf("the time of the first message ended it: %q", d.gone())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := d.gone(); !slices.Equal(got, []string{"cascade-1"}) || len(marks(t, dir)) != 0 {
			t.Errorf("deleted %q", got)
		}
		for n := range maxKept + 3 {
			ask(t.Context(), u, saying(n))
		}
		synctest.Wait()
		if got := d.gone(); len(got) != 4 {
			t.Errorf("beyond the limit: deleted %q", got)
		}
		ask(t.Context(), u, saying(maxKept+2)) // the same again: one of the two can be continued
		synctest.Wait()
		if got := d.gone(); len(got) != 5 {
			t.Errorf("the same history: deleted %q", got)
		}
		if err := u.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.gone(); len(got) != d.started || len(marks(t, dir)) != 0 {
			t.Errorf("at the end: %d of %d are deleted", len(got), d.started)
		}
	})
}

// In an IDE, a conversation that its user has continued, or that asks the user, is the user's.
func TestConversationsOfTheUserStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for name, sent := range map[string]string{"left": "hello", "continued": "hello", "replaced": "hello"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("EARLIER "+digest(sent)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := &deleting{inputs: map[string][]string{"left": {"hello"}, "continued": {"hello", "my own"}, "replaced": {"my own"}, "cascade-1": {"hello 0", "my own"}}}
		d.answer = func(ctx context.Context, n int, yield func(trajectory.Event, error) bool) {
			reason := trajectory.ReasonDone
			if n == 2 {
				reason = trajectory.ReasonWaiting
			}
			says(text(1, "a"), done(reason))(ctx, n, yield)
		}
		own := NewOwn(OwnOptions{Client: d, Dir: dir, Attached: true})
		own.Sweep(t.Context())
		if got := d.gone(); !slices.Equal(got, []string{"left"}) || len(marks(t, dir)) != 0 {
			t.Errorf("deleted %q", got)
		}
		u := New(Options{Client: d, Attached: true, Own: own})
		for n := range 3 {
			ask(t.Context(), u, saying(n))
		}
		if err := u.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.gone(); !slices.Equal(got, []string{"cascade-3", "left"}) || len(marks(t, dir)) != 0 {
			t.Errorf("deleted %q", got)
		}
	})
}

// A call does not go on in a conversation in which the user of the IDE has written since: the next
// answer there is the user's.
func TestConversationsOfTheUserAreNotContinued(t *testing.T) {
	d := &deleting{scripted: scripted{answer: says(text(1, "a"), done(trajectory.ReasonDone))}, inputs: map[string][]string{}}
	u := New(Options{Client: d, Attached: true, Own: NewOwn(OwnOptions{Client: d, Attached: true})})
	next := func(turns int) {
		contents := []perigee.Content{message(perigee.RoleUser, "hello 0")}
		for range turns {
			contents = append(contents, message(perigee.RoleModel, "a"), message(perigee.RoleUser, "go on"))
		}
		ask(t.Context(), u, request(true, perigee.Prompt{Contents: contents}))
	}
	next(0)
	next(1)
	if d.started != 1 {
		t.Fatalf("%d conversations for one that goes on", d.started)
	}
	d.inputs["cascade-1"] = []string{"hello 0", "go on", "my own"}
	next(2)
	if err := u.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.gone(); d.started != 2 || !slices.Equal(got, []string{"cascade-2"}) {
		t.Errorf("%d conversations, deleted %q", d.started, got)
	}
}

// A conversation that could not be deleted is deleted with the next one, or when the server is
// ready again.
func TestDeletionsAreRepeated(t *testing.T) {
	d := &deleting{down: true}
	var told []string
	own := NewOwn(OwnOptions{Client: d, Dir: t.TempDir(), Deleted: func(cascade string) { told = append(told, cascade) }})
	for _, cascade := range []string{"one", "two", "three", "../outside"} {
		own.addConversation(cascade)
	}
	own.delete(t.Context(), "one")
	if len(own.Leftovers()) != 0 || len(told) != 0 {
		t.Errorf("left %q, told %q", own.Leftovers(), told)
	}
	d.down = false
	own.delete(t.Context(), "two", "unknown")
	d.down = true
	own.delete(t.Context(), "three")
	d.down = false
	own.Sweep(t.Context())
	own.Sweep(t.Context())
	if got := d.gone(); !slices.Equal(got, []string{"one", "three", "two"}) || len(told) != 3 {
		t.Errorf("deleted %q, told %q", got, told)
	}
}
