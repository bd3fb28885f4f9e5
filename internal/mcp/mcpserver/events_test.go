package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func newEventStore() (*eventStore, *[]string) {
	var log []string
	return &eventStore{sessions: map[string]*eventLog{},
		opened: func(_ context.Context, id string) { log = append(log, "opened "+id) },
		closed: func(id string) { log = append(log, "closed "+id) }}, &log
}

func replay(s *eventStore, session, stream string, index int) (events []string, err error) {
	for data, err := range s.After(context.Background(), session, stream, index) {
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
	return events, nil
}

func TestEventsAreReplayed(t *testing.T) {
	ctx := context.Background()
	s, log := newEventStore()
	for _, stream := range []string{"", "a", "a"} {
		if err := s.Open(ctx, "s", stream); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := s.Append(ctx, "s", "a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range map[int]string{-1: "[0 1 2]", 0: "[1 2]", 2: "[]", 7: "[]"} {
		if got, err := replay(s, "s", "a", index); fmt.Sprint(got) != want || err != nil {
			t.Errorf("after %d: %v, %v", index, got, err)
		}
	}
	if _, err := replay(s, "s", "b", -1); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("an unknown stream: %v", err)
	}
	for range 2 {
		if err := s.SessionClosed(ctx, "s"); err != nil {
			t.Error(err)
		}
	}
	if _, err := replay(s, "s", "a", -1); err == nil {
		t.Error("a session that has ended is replayed")
	}
	if err := s.Append(ctx, "s", "a", nil); err == nil {
		t.Error("a session that has ended gets events")
	}
	if fmt.Sprint(*log) != "[opened s closed s]" {
		t.Errorf("log %v", *log)
	}
}

func TestEventsOfASessionAreBounded(t *testing.T) {
	ctx := context.Background()
	s, _ := newEventStore()
	for _, stream := range []string{"", "a", "b"} {
		_ = s.Open(ctx, "s", stream)
	}
	_ = s.Open(ctx, "t", "")
	_ = s.Append(ctx, "t", "", []byte("kept"))
	large := bytes.Repeat([]byte{'x'}, 300<<10)
	for range 4 {
		_ = s.Append(ctx, "s", "a", large)
	}
	_ = s.Append(ctx, "s", "b", []byte("small"))
	l := s.sessions["s"]
	if l.bytes > maxEventBytes || len(l.queue) != 4 {
		t.Errorf("%d bytes, %d events", l.bytes, len(l.queue))
	}
	if _, err := replay(s, "s", "a", -1); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("an event that is gone: %v", err)
	}
	if got, err := replay(s, "s", "a", 0); len(got) != 3 || err != nil {
		t.Errorf("%d events, %v", len(got), err)
	}
	// An event that is larger than all that is kept leaves nothing.
	_ = s.Append(ctx, "s", "b", bytes.Repeat([]byte{'x'}, maxEventBytes))
	if l.bytes != 0 || len(l.queue) != 0 {
		t.Errorf("%d bytes, %d events", l.bytes, len(l.queue))
	}
	if _, err := replay(s, "s", "b", 0); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("the large event: %v", err)
	}
	if got, err := replay(s, "s", "b", 1); len(got) != 0 || err != nil {
		t.Errorf("after the large event: %v, %v", got, err)
	}
	if got, _ := replay(s, "t", "", -1); len(got) != 1 {
		t.Error("the events of another session are gone")
	}
}

func TestStreamsOfASessionAreBounded(t *testing.T) {
	ctx := context.Background()
	s, _ := newEventStore()
	_ = s.Open(ctx, "s", "")
	_ = s.Append(ctx, "s", "", []byte("first"))
	for i := range 3 * maxStreams {
		stream := fmt.Sprint(i)
		_ = s.Open(ctx, "s", stream)
		_ = s.Append(ctx, "s", stream, []byte("event"))
	}
	l := s.sessions["s"]
	if len(l.streams) != maxStreams || len(l.order) != maxStreams || len(l.queue) != maxStreams {
		t.Errorf("%d streams, %d in order, %d events", len(l.streams), len(l.order), len(l.queue))
	}
	if got, err := replay(s, "s", "", -1); len(got) != 1 || err != nil {
		t.Errorf("the stream of the session: %v, %v", got, err)
	}
	if _, err := replay(s, "s", "0", -1); err == nil {
		t.Error("the oldest stream is kept")
	}
}
