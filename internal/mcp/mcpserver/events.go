package mcpserver

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxEventBytes = 1 << 20 // of a session, with eventCost for each event
	eventCost     = 64      // bytes that are charged for an event in addition to its data
	maxStreams    = 1024    // of a session; each request is one
)

// An eventStore keeps the last events of each session, so that a client with a lost connection can
// fetch the events it has missed. It is also notified of the start and the end of sessions.
type eventStore struct {
	opened func(ctx context.Context, session string)
	closed func(session string)

	mu       sync.Mutex
	sessions map[string]*eventLog
}

// An eventLog has the events of a session.
type eventLog struct {
	bytes   int
	streams map[string]*streamLog
	order   []string // the streams, in the order in which they were opened
	queue   []string // the stream of each event that is kept, in the order in which they were sent
}

// A streamLog has the events of a stream, starting with the index first.
type streamLog struct {
	first  int
	events [][]byte
}

// Open implements mcp.EventStore.
func (s *eventStore) Open(ctx context.Context, session, stream string) error {
	s.mu.Lock()
	l := s.sessions[session]
	begins := l == nil
	if begins {
		l = &eventLog{streams: map[string]*streamLog{}}
		s.sessions[session] = l
	}
	l.open(stream)
	s.mu.Unlock()
	if begins {
		s.opened(ctx, session)
	}
	return nil
}

func (l *eventLog) open(stream string) {
	if l.streams[stream] != nil {
		return
	}
	l.streams[stream] = &streamLog{}
	l.order = append(l.order, stream)
	if len(l.order) > maxStreams {
		at := 0
		if l.order[0] == "" { // the stream of the session itself, which is as old as the session
			at = 1
		}
		l.forget(l.order[at])
		l.order = slices.Delete(l.order, at, at+1)
	}
}

// forget removes a stream with its events.
func (l *eventLog) forget(stream string) {
	for _, e := range l.streams[stream].events {
		l.bytes -= len(e) + eventCost
	}
	delete(l.streams, stream)
	l.queue = slices.DeleteFunc(l.queue, func(s string) bool { return s == stream })
}

// Append implements mcp.EventStore.
func (s *eventStore) Append(_ context.Context, session, stream string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[session]
	if l == nil || l.streams[stream] == nil {
		return fmt.Errorf("the stream is not kept")
	}
	log := l.streams[stream]
	log.events = append(log.events, data)
	l.queue = append(l.queue, stream)
	l.bytes += len(data) + eventCost
	for l.bytes > maxEventBytes {
		oldest := l.streams[l.queue[0]]
		l.queue = l.queue[1:]
		l.bytes -= len(oldest.events[0]) + eventCost
		oldest.events[0] = nil
		oldest.events = oldest.events[1:]
		oldest.first++
	}
	return nil
}

// After implements mcp.EventStore.
func (s *eventStore) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var events [][]byte
	var err error
	if l := s.sessions[session]; l == nil || l.streams[stream] == nil {
		err = fmt.Errorf("the stream is not kept: %w", mcp.ErrEventsPurged)
	} else if log := l.streams[stream]; index+1 < log.first {
		err = mcp.ErrEventsPurged
	} else if from := index + 1 - log.first; from < len(log.events) {
		events = slices.Clone(log.events[from:])
	}
	return func(yield func([]byte, error) bool) {
		if err != nil {
			yield(nil, err)
			return
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// SessionClosed implements mcp.EventStore.
func (s *eventStore) SessionClosed(_ context.Context, session string) error {
	s.mu.Lock()
	_, known := s.sessions[session]
	delete(s.sessions, session)
	s.mu.Unlock()
	if known {
		s.closed(session)
	}
	return nil
}
