package record

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"perigee"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is an Upstream that does its steps in order: it yields a perigee.Event, makes a
// perigee.Note, ends with an error, calls a func() (which may panic), or waits for the end of the
// ctx.
type script []any

// untilCanceled is the step that waits for ctx and ends with its error.
type untilCanceled struct{}

// Stream goes through the steps. What waits for the end of ctx runs in a bubble.
func (s script) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		for _, step := range s {
			switch step := step.(type) {
			case perigee.Event:
				if !yield(step, nil) {
					return
				}
			case perigee.Note:
				req.Log.Note(step)
			case error:
				yield(perigee.Event{}, step)
				return
			case func():
				step()
			case untilCanceled:
				<-ctx.Done()
				yield(perigee.Event{}, ctx.Err())
				return
			}
		}
	}
}

var (
	start    = perigee.Event{Kind: perigee.EventStart, Upstream: "studio", Model: "gemini-3-flash"}
	text     = perigee.Event{Kind: perigee.EventText, Text: "hello"}
	frame    = perigee.Event{Kind: perigee.EventFrame, Frame: []byte("data: {}\n\n")}
	usage    = perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 10, Cached: 4, Output: 3, Thinking: 1}}
	finish   = perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}}
	noted    = perigee.Note{Action: "renamed", Subject: "tool 1mcp.read"}
	capacity = &perigee.Error{Class: perigee.ClassCapacity, Message: "no capacity", Upstream: "antigravity", Model: "claude",
		Status: 503}
)

func request(id string) *perigee.Request {
	return perigee.NewRequest(perigee.Origin{
		ID:      id,
		Dialect: perigee.DialectOpenAIChat,
		Body:    []byte(`{"model":"gpt-4o"}`),
		Client:  perigee.Client{Name: "codex", Version: "1.2", Key: "laptop", Session: "s"},
	}, "gpt-4o", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{{Parts: []perigee.Part{{Text: perigee.Plain("12345678")}}}}}, nil
	})
}

// A memory is a CallStore that keeps the batches it was given, and fails while it has an error.
type memory struct {
	mu      sync.Mutex
	batches [][]perigee.Call
	tries   int
	err     error
}

var errBroken = errors.New("disk is full")

func (m *memory) SaveCalls(_ context.Context, calls []perigee.Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.err != nil {
		return m.err
	}
	m.batches = append(m.batches, slices.Clone(calls))
	return nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) attempts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tries
}

// written says what was written, batch by batch, as "id outcome".
func (m *memory) written() (batches [][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, batch := range m.batches {
		var rows []string
		for _, c := range batch {
			rows = append(rows, c.ID+" "+string(c.Outcome))
		}
		batches = append(batches, rows)
	}
	return batches
}

// calls gives the last state of each call.
func (m *memory) calls() map[string]perigee.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := map[string]perigee.Call{}
	for _, batch := range m.batches {
		for _, c := range batch {
			calls[c.ID] = c
		}
	}
	return calls
}

func mustClose(t testing.TB, r *Recorder) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
