// Package gemini is the upstream for the official Gemini API with one or more API keys. A request that came
// in the Gemini dialect goes on as the bytes it came in; any other is written anew from its prompt, after
// package prepare has made it one that the API accepts.
//
// It classifies what goes wrong but decides nothing: whether to try elsewhere is routing's business. The
// one exception is its own keys, which nobody else knows: a key that is refused or used up gives way to the
// next before anything was answered.
package gemini

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/models"
	"perigee/internal/prepare"
	"perigee/internal/sse"
	"perigee/internal/upstream/wire"
)

// DefaultURL is where the official API lives.
const DefaultURL = "https://generativelanguage.googleapis.com"

// An answer that is not streamed and an error's explanation are read whole, up to these sizes.
const (
	maxAnswer = 256 << 20
	maxList   = 16 << 20
	maxError  = 256 << 10
)

// Options say how to reach the API. Zero values mean defaults.
type Options struct {
	Name      string // as the configuration calls it
	URL       string
	Keys      []perigee.Secret
	UserAgent string
	FirstByte time.Duration // how long to wait for the first event; 0: forever
	Idle      time.Duration // how long a stream may be quiet; 0: forever
	Transport http.RoundTripper
	Logger    *slog.Logger
	Now       func() time.Time
}

// An Upstream asks the Gemini API.
type Upstream struct {
	opts   Options
	client *http.Client
	keys   *keyring
}

// New returns an upstream. It connects when it is first asked.
func New(opts Options) *Upstream {
	if opts.URL == "" {
		opts.URL = DefaultURL
	}
	opts.URL = strings.TrimSuffix(opts.URL, "/")
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Upstream{opts: opts, client: wire.NewClient(opts.Transport), keys: newKeyring(opts.Keys)}
}

// Close drops idle connections.
func (u *Upstream) Close() error {
	u.client.CloseIdleConnections()
	return nil
}

// Unusable says why no call can succeed, as far as that is known without one; empty: calls can.
func (u *Upstream) Unusable() string {
	if u.keys.allRejected(u.opts.Now()) {
		return "the provider rejects its API keys"
	}
	return ""
}

// Stream asks the model. Callers that stream get the provider's stream, others its one answer, each as a
// frame when they speak its dialect.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		method := "generateContent"
		if req.Stream {
			method = "streamGenerateContent?alt=sse"
		}
		m, err := u.message(req, method)
		if err == nil {
			err = u.ask(ctx, req, method, &m, yield)
		}
		if repaired, ok := u.repair(req, &m, err); ok {
			err = u.ask(ctx, req, method, &repaired, yield)
		}
		if err != nil {
			yield(perigee.Event{}, err)
		}
	}
}

// ask sends a message and passes the answer on. The error it returns is for the caller to yield; nil also means that
// the caller has left.
func (u *Upstream) ask(ctx context.Context, req *perigee.Request, method string, m *message, yield func(perigee.Event, error) bool) error {
	for i := range m.notes {
		if !yield(perigee.Event{Kind: perigee.EventNote, Note: &m.notes[i]}, nil) {
			return nil
		}
	}
	outgoing := wire.NewBody(m.body)
	outgoing.ReleaseWith(req, m.giveBack)
	defer outgoing.Wait()
	ctx, dog := wire.Watch(ctx, u.opts.FirstByte)
	defer dog.Stop()
	t := trail{upstream: u, steps: req.Steps}
	resp, err := u.post(ctx, req.Model, method, outgoing, &t)
	if err != nil {
		return u.explain(ctx, req.Model, err)
	}
	defer resp.Body.Close()

	// The provider's own chunks are no use to a client that knows its tools by other names.
	frames := req.Dialect == perigee.DialectGemini && !m.back.Needed()
	out := answer{relay: wire.NewRelay(&req.Origin, yield), upstream: u.opts.Name, frames: frames, back: m.back, decoder: dialect.Decoder{Outline: frames}}
	// An error that comes with a good status comes in one piece, whatever was asked for.
	if inOnePiece := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"); req.Stream && !inOnePiece {
		err = out.relay.Stream(sse.NewReader(resp.Body), dog, u.opts.Idle, &out)
	} else {
		err = out.relay.Whole(resp.Body, maxAnswer, &out)
	}
	if err != nil && !out.relay.Left() {
		err = u.explain(ctx, req.Model, err)
		t.ends(err)
		return err
	}
	t.ends(nil)
	return nil
}

// A message is what is sent to the provider, what has to be undone in its answer, and what the client should
// know about it.
type message struct {
	body  []byte
	room  []byte // of package wire, where the body is
	back  prepare.Back
	notes []perigee.Note
}

// giveBack drops the body, which has been sent.
func (m *message) giveBack() {
	wire.GiveBack(m.room)
	m.body, m.room = nil, nil
}

// message returns what to send: the client's own bytes if they are in this dialect, the prompt written anew
// otherwise.
func (u *Upstream) message(req *perigee.Request, method string) (m message, err error) {
	if asItCame(req) {
		m.body, err = ownBytes(req)
		return m, err
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, err
	}
	prompt, m.back, m.notes = prepare.ForGemini(prompt, models.Of(req.Model))
	if err := req.Object(m.notes); err != nil {
		return m, err
	}
	if method == "countTokens" {
		m.body = dialect.EncodeCountRequest(prompt, req.Model)
	} else {
		m.room = dialect.AppendRequest(wire.Room(dialect.RequestSize(prompt)), prompt)
		m.body = m.room
	}
	return m, nil
}

// asItCame says whether the client's own bytes can be sent: they are in this dialect, and the model is one that the
// dialect was made for. Claude behind the same API has rules that clients of it do not know.
func asItCame(req *perigee.Request) bool {
	return req.Verbatim(perigee.DialectGemini) && models.Of(req.Model).Family != models.Claude
}

// ownBytes are the client's bytes with the edits that they need: they name the model that is asked, and as much thinking as its
// name says.
func ownBytes(req *perigee.Request) ([]byte, error) {
	body := req.Body
	if req.Thinking != nil {
		prompt, err := req.Prompt()
		if err != nil {
			return nil, err
		}
		fitted, _, _ := prepare.ForGemini(prompt, models.Of(req.Model))
		if fitted.Generation.Thinking != nil {
			body = dialect.SetThinking(body, fitted.Generation.Thinking)
		}
	}
	if req.NamesModel {
		return dialect.RewriteModel(body, req.Model)
	}
	return body, nil
}

// CountTokens asks the API to count.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	m, err := u.message(req, "countTokens")
	if err != nil {
		return nil, err
	}
	raw, err := u.call(ctx, &req.Origin, req.Model, "countTokens", wire.NewBody(m.body))
	if err != nil {
		return nil, err
	}
	count, err := dialect.DecodeTokenCount(raw)
	if err != nil {
		return nil, u.garbled(req.Model, err)
	}
	count.Upstream, count.Model = u.opts.Name, req.Model
	if req.Dialect == perigee.DialectGemini {
		count.Raw = raw
	}
	return count, nil
}

// Models asks the API for its list, all pages of it.
func (u *Upstream) Models(ctx context.Context) ([]perigee.Model, error) {
	var all []perigee.Model
	page := ""
	for range 100 { // more pages than this is a provider that pages in circles
		target := u.opts.URL + "/v1beta/models?pageSize=1000"
		if page != "" {
			target += "&pageToken=" + url.QueryEscape(page)
		}
		raw, err := u.get(ctx, target)
		if err != nil {
			return nil, err
		}
		models, next, err := dialect.DecodeModels(raw)
		if err != nil {
			return nil, u.garbled("", err)
		}
		for i := range models {
			models[i].Upstream = u.opts.Name
		}
		all = append(all, models...)
		if next == "" || next == page {
			break
		}
		page = next
	}
	return all, nil
}
