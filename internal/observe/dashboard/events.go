package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/live"
	"perigee/internal/server/mount"
)

// Times of an event stream.
const (
	sendDelay  = 60 * time.Millisecond // how long updates are collected before they are sent
	keepAlive  = 15 * time.Second
	todayPause = 2 * time.Second
	sendSize   = 256 << 10 // bytes
)

// A message is the data of an event. Its name is the kind of the live.Update, or "today".
type message struct {
	ID   string `json:"id,omitempty"`
	HTML string `json:"html,omitempty"` // written by package pages
	Text string `json:"text,omitempty"` // a further piece, to be added as text
}

// A stream is an answer to GET /dashboard/events.
type stream struct {
	*Dashboard
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	texts   map[string]*live.Growing // by ID of the call and kind
}

// events sends updates about calls.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	v := d.visit(w, r)
	if v == nil {
		_ = d.unauthorized(w, r, false)
		return
	}
	select {
	case d.seats <- struct{}{}:
		defer func() { <-d.seats }()
	default:
		mount.CallOf(r).Fail(perigee.Errorf(perigee.ClassCapacity, "too many pages of the dashboard are open").WithHint("close some"))
		return
	}
	setHeaders(w.Header())
	mount.StreamHeader(w.Header(), "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{Dashboard: d, w: w, control: http.NewResponseController(w), texts: map[string]*live.Growing{}}
	s.buf.WriteString("retry: 2000\nevent: hello\ndata: {}\n\n")
	s.run(r.Context(), func() bool { return d.opts.Sessions.Valid(v.session) })
}

// run sends updates until ctx or the Hub ends, the browser has disconnected, or the session is not
// valid any more.
func (s *stream) run(ctx context.Context, valid func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	updates := make(chan live.Update)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(updates)
		for u := range s.opts.Live.Subscribe(ctx) {
			select {
			case updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	send := time.After(0)
	var counted <-chan time.Time
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return
			}
			s.add(&u)
			if u.Kind == live.Ended && counted == nil {
				counted = time.After(s.todayPause)
			}
			switch {
			case s.buf.Len() > sendSize:
				send = time.After(0)
			case send == nil:
				send = time.After(sendDelay)
			}
		case <-counted:
			counted = nil
			s.addToday(ctx)
			send = time.After(0)
		case <-send:
			if send = nil; !s.flush() {
				return
			}
		case <-alive.C:
			if !valid() {
				return
			}
			s.buf.WriteString(": alive\n\n")
			send = time.After(0)
		case <-ctx.Done():
			return
		}
	}
}

// add adds an update to the next output.
func (s *stream) add(u *live.Update) {
	id := u.Call.ID
	switch u.Kind {
	case live.Began:
		s.event("began", message{ID: id, HTML: pages.OpenCall{Call: s.clean(*u.Call), Phase: "waiting"}.HTML(s.times()).String()})
	case live.Started:
		s.event("started", message{ID: id, HTML: pages.OpenCall{Call: s.clean(*u.Call)}.What().String()})
	case live.Text, live.Thinking:
		key := u.Kind.String() + " " + id
		if s.texts[key] == nil {
			s.texts[key] = &live.Growing{}
		}
		if text := s.texts[key].Add(u.Text); text != "" {
			s.event(u.Kind.String(), message{ID: id, Text: s.opts.Redact(text)})
		}
	case live.Tool:
		s.event("tool", message{ID: id, Text: s.opts.Redact(u.Text)})
	case live.Ended:
		for _, kind := range []live.Kind{live.Thinking, live.Text} {
			key := kind.String() + " " + id
			if text := s.texts[key]; text != nil {
				if rest := text.End(); rest != "" {
					s.event(kind.String(), message{ID: id, Text: s.opts.Redact(rest)})
				}
			}
			delete(s.texts, key)
		}
		s.event("ended", message{ID: id, HTML: pages.CallRow(s.times(), s.clean(*u.Call)).String()})
	}
}

// addToday adds the numbers of the day.
func (s *stream) addToday(ctx context.Context) {
	today, err := s.today(ctx, s.opts.Now())
	if err != nil {
		if ctx.Err() == nil {
			s.opts.Logger.Warn("the numbers of the dashboard cannot be read", "error", err)
		}
		return
	}
	s.event("today", message{HTML: today.HTML().String()})
}

func (s *stream) event(name string, m message) {
	data, err := json.Marshal(m)
	if err != nil {
		return
	}
	s.buf.WriteString("event: " + name + "\ndata: ")
	s.buf.Write(data)
	s.buf.WriteString("\n\n")
}

// flush sends the pending output, and reports whether that succeeded.
func (s *stream) flush() bool {
	if s.buf.Len() == 0 {
		return true
	}
	_, err := s.w.Write(s.buf.Bytes())
	s.buf.Reset()
	return err == nil && s.control.Flush() == nil
}
