package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/trajectory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A scripted client answers messages by a script.
type scripted struct {
	// answer yields the events of a turn. n counts messages from 1.
	answer   func(ctx context.Context, n int, yield func(trajectory.Event, error) bool)
	startErr func(n int) error
	sendErr  func(n int) error

	mu       sync.Mutex
	started  int
	running  int
	most     int // at once
	messages []sentMessage
	canceled []string
	at       []time.Time // of cancellations
}

type sentMessage struct {
	cascade string
	Message
}

func (s *scripted) Start(_ context.Context, model string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	if s.startErr != nil {
		if err := s.startErr(s.started); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("cascade-%d", s.started), nil
}

func (s *scripted) Send(_ context.Context, cascade string, m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, sentMessage{cascade, m})
	if s.sendErr != nil {
		return s.sendErr(len(s.messages))
	}
	return nil
}

func (s *scripted) Follow(ctx context.Context, _ string, cursor *trajectory.Cursor) iter.Seq2[trajectory.Event, error] {
	return func(yield func(trajectory.Event, error) bool) {
		s.mu.Lock()
		n := len(s.messages)
		s.running++
		s.most = max(s.most, s.running)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.running--
			s.mu.Unlock()
		}()
		cursor.Marks = append(cursor.Marks, trajectory.Mark{}, trajectory.Mark{}) // the message and the answer
		s.answer(ctx, n, yield)
	}
}

func (s *scripted) Cancel(_ context.Context, cascade string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled, s.at = append(s.canceled, cascade), append(s.at, time.Now())
	return nil
}

func (s *scripted) Models(context.Context) ([]perigee.Model, error) {
	return []perigee.Model{{ID: "gemini-3-flash", DisplayName: "Gemini 3 Flash"}}, nil
}

// says returns a script with fixed events for every message.
func says(events ...trajectory.Event) func(context.Context, int, func(trajectory.Event, error) bool) {
	return func(_ context.Context, _ int, yield func(trajectory.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func text(step int, s string) trajectory.Event {
	return trajectory.Event{Kind: trajectory.KindText, Step: step, Text: s}
}

func done(r trajectory.Reason) trajectory.Event {
	return trajectory.Event{Kind: trajectory.KindDone, Reason: r}
}

// request is one with these contents.
func request(stream bool, p perigee.Prompt) *perigee.Request {
	origin := perigee.Origin{ID: "call", Dialect: perigee.DialectOpenAIChat, Log: &perigee.CallLog{}}
	return perigee.NewRequest(origin, "gemini-3-flash", stream, func() (*perigee.Prompt, error) { return &p, nil })
}

func message(role, text string) perigee.Content {
	return perigee.Content{Role: role, Parts: []perigee.Part{{Text: perigee.Plain(text)}}}
}

func hello(stream bool) *perigee.Request {
	return request(stream, perigee.Prompt{Contents: []perigee.Content{message(perigee.RoleUser, "hello")}})
}

// A reply is an answer as a client sees it.
type reply struct {
	text, thinking string
	usage          perigee.Usage
	finish         *perigee.Finish
	start          perigee.Event
	starts         int
	err            *perigee.Error
}

func ask(ctx context.Context, u perigee.Upstream, req *perigee.Request) (r reply) {
	for e, err := range u.Stream(ctx, req) {
		if err != nil {
			r.err = perigee.AsError(err)
			return r
		}
		switch e.Kind {
		case perigee.EventStart:
			r.start = e
			r.starts++
		case perigee.EventText:
			r.text += e.Text
		case perigee.EventThinking:
			r.thinking += e.Text
		case perigee.EventUsage:
			r.usage = *e.Usage
		case perigee.EventFinish:
			r.finish = e.Finish
		}
	}
	return r
}

func noteList(req *perigee.Request) string {
	var list []string
	for _, n := range req.Log.Notes() {
		list = append(list, n.String())
	}
	data, _ := json.Marshal(list)
	return string(data)
}
