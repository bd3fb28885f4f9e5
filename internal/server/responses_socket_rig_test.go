package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/lib/rawjson"
	"perigee/internal/server"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A socketRig is a server that sockets can be opened to. Time is the bubble's.
type socketRig struct {
	api   *server.Server
	pipes *perigeetest.Pipes
	stop  context.CancelCauseFunc // as the daemon does when it stops waiting
}

func newSocketRig(t *testing.T, upstream perigee.Upstream, settings server.Settings, change func(*server.Options)) *socketRig {
	t.Helper()
	opts := server.Options{Upstream: upstream, NewID: (&perigeetest.IDs{}).New}
	if change != nil {
		change(&opts)
	}
	if settings.MaxBody == 0 {
		settings.MaxBody = 1 << 20
	}
	settings.Loopback = true
	base, stop := context.WithCancelCause(context.Background())
	d := &socketRig{api: server.New(opts, settings), pipes: perigeetest.NewPipes(), stop: stop}
	server := &http.Server{Handler: d.api, BaseContext: func(net.Listener) context.Context { return base }}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = server.Serve(d.pipes)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		await.Receive(t, stopped, "the end of the server")
		d.api.Close()
		stop(nil)
	})
	return d
}

// dial opens a socket, or returns the status with which it was refused.
func (d *socketRig) dial(t *testing.T, change func(*websocket.DialOptions)) (*peer, *http.Response, error) {
	t.Helper()
	transport := &http.Transport{DialContext: d.pipes.Dial, DisableKeepAlives: true}
	opts := &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{}}
	if change != nil {
		change(opts)
	}
	conn, resp, err := websocket.Dial(t.Context(), "ws://localhost/v1/responses", opts)
	if err != nil {
		return nil, resp, err
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &peer{t, conn}, resp, nil
}

func (d *socketRig) connect(t *testing.T) *peer {
	t.Helper()
	p, _, err := d.dial(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A peer is the client's end of a socket.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
}

func (p *peer) say(message string) {
	p.t.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageText, []byte(message)); err != nil {
		p.t.Fatalf("cannot say %s: %v", message, err)
	}
}

// A heard event is what clients look at.
type heard struct {
	Type     string
	Status   int
	Stream   *string `json:"stream_id"`
	Delta    string
	Sequence *int `json:"sequence_number"`
	Headers  map[string]string
	Error    struct{ Message, Type, Code, Param string }
	Response struct {
		ID, Status string
		Output     []struct{ Content []struct{ Text string } }
		Error      struct{ Code, Message string }
	}
}

// text is what the response of an event says.
func (h heard) text() string {
	text := ""
	for _, item := range h.Response.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

func (h heard) stream() string {
	if h.Stream == nil {
		return ""
	}
	return *h.Stream
}

// hear returns the next event.
func (p *peer) hear() heard {
	p.t.Helper()
	_, data, err := p.conn.Read(context.Background())
	if err != nil {
		p.t.Fatalf("heard nothing: %v", err)
	}
	var event heard
	if err := json.Unmarshal(data, &event); err != nil || event.Type == "" {
		p.t.Fatalf("heard %q (%v)", data, err)
	}
	return event
}

// until returns the next event of a type, past everything but errors.
func (p *peer) until(kind string) heard {
	p.t.Helper()
	for {
		event := p.hear()
		if event.Type == kind {
			return event
		}
		if event.Type == "error" {
			p.t.Fatalf("heard %+v before %s", event, kind)
		}
	}
}

// closed returns with which code the other side has closed the socket, after nothing more.
func (p *peer) closed() websocket.StatusCode {
	p.t.Helper()
	_, data, err := p.conn.Read(context.Background())
	if err == nil {
		p.t.Fatalf("heard %s instead of a goodbye", data)
	}
	return websocket.CloseStatus(err)
}

// An echoRig is an upstream that says what it was asked last, when it may, and remembers
// everything.
type echoRig struct {
	mu      sync.Mutex
	prompts []*perigee.Prompt
	wait    func(ctx context.Context, said string) error // nil means at once
}

func (p *echoRig) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		prompt, err := req.Prompt()
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		p.mu.Lock()
		p.prompts = append(p.prompts, prompt)
		p.mu.Unlock()
		if req.Model == "missing" {
			yield(perigee.Event{}, &perigee.Error{Class: perigee.ClassNotFound, Message: "no such model", Upstream: "echo"})
			return
		}
		if !req.Stream {
			yield(perigee.Event{}, errors.New("asked for an answer in one piece"))
			return
		}
		said := lastText(prompt)
		if !yield(perigee.Event{Kind: perigee.EventStart, Upstream: "echo", Model: req.Model}, nil) {
			return
		}
		if p.wait != nil {
			if err := p.wait(ctx, said); err != nil {
				yield(perigee.Event{}, err)
				return
			}
		}
		if yield(perigee.Event{Kind: perigee.EventText, Text: "you said " + said}, nil) {
			yield(end, nil)
		}
	}
}

func (p *echoRig) asked() []*perigee.Prompt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prompts
}

func lastText(p *perigee.Prompt) string {
	last := p.Contents[len(p.Contents)-1]
	return rawjson.Unescaped(last.Parts[len(last.Parts)-1].Text.Form())
}

// talk is a conversation as its turns.
func talk(p *perigee.Prompt) (turns []string) {
	for _, c := range p.Contents {
		for _, part := range c.Parts {
			turns = append(turns, string(c.Role)+": "+rawjson.Unescaped(part.Text.Form()))
		}
	}
	return turns
}

// slowly waits a minute.
func slowly(ctx context.Context, _ string) error {
	quietFor(ctx, time.Minute)
	return ctx.Err()
}
