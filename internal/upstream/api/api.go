// Package api is the upstream for the official Gemini API with one or more API keys. A request
// in the Gemini dialect is sent unchanged; any other is encoded anew from its prompt, after
// package adapt has adapted the prompt to the API.
//
// Failover between upstreams is up to routing. Only a rejected or exhausted API key is replaced by
// the next one here, before any part of the answer was returned.
package api

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/sse"
	"perigee/internal/lib/wire"
)

// DefaultURL is the address of the official API.
const DefaultURL = "https://generativelanguage.googleapis.com"

// Answers in one piece, lists and errors are read up to these sizes.
const (
	maxAnswer = 256 << 20
	maxList   = 16 << 20
	maxError  = 256 << 10
)

// Options configure the connection to the API. Zero values mean defaults.
type Options struct {
	Name      string // name in the configuration
	URL       string
	Keys      []perigee.Secret
	UserAgent string
	FirstByte time.Duration // how long to wait for the first event; 0 means no limit
	Idle      time.Duration // how long a stream may be quiet; 0 means no limit
	Transport http.RoundTripper
	Logger    *slog.Logger
	Now       func() time.Time
}

// An Upstream calls the Gemini API.
type Upstream struct {
	opts   Options
	client *http.Client
	keys   *keyring
}

// New returns an upstream. It connects on the first call.
func New(opts Options) *Upstream {
	opts.URL = strings.TrimSuffix(cmp.Or(opts.URL, DefaultURL), "/")
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
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

// Unusable returns the reason why calls cannot succeed, or "" if none is known. It makes no call.
func (u *Upstream) Unusable() string {
	if u.keys.allRejected(u.opts.Now()) {
		return "the provider rejects its API keys"
	}
	return ""
}

// Stream requests a stream, or one answer if the caller does not stream. Callers in the Gemini
// dialect get the provider's chunks as frames.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		t := trail{upstream: u, log: req.Log}
		started := false // the caller has received an event, which cannot be withdrawn
		pass := func(ev perigee.Event, err error) bool {
			started = true
			return yield(ev, err)
		}
		m, err := u.message(req, generateMethod(req.Stream))
		defer func() { m.giveBack() }()
		if err == nil {
			err = u.ask(ctx, req, &m, &t, pass)
		}
		if !started && err != nil {
			if repaired, ok := u.repair(req, &m, err); ok {
				t.failed(err)
				err = u.ask(ctx, req, &repaired, &t, pass)
			}
		}
		t.ends(err)
		if err != nil {
			yield(perigee.Event{}, err)
		}
	}
}

// generateMethod returns the API method for an answer of a model.
func generateMethod(stream bool) string {
	if stream {
		return "streamGenerateContent?alt=sse"
	}
	return "generateContent"
}

// ask sends a message and emits the answer. The caller yields the error and ends the trail. A nil
// error also means that the client has left.
func (u *Upstream) ask(ctx context.Context, req *perigee.Request, m *message, t *trail, yield func(perigee.Event, error) bool) error {
	req.Log.Note(m.notes...)
	outgoing := wire.NewBody(m.body...).ShowTo(req.Log).In(cmp.Or(m.memory, req.Buffer))
	outgoing.ReleaseWith(req, m.giveBack)
	defer outgoing.Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	resp, err := u.post(ctx, req.Model, generateMethod(req.Stream), outgoing, t)
	if err != nil {
		return u.explain(ctx, req.Model, err)
	}
	defer resp.Body.Close()

	// The provider's own chunks have the wrong names of tools that were renamed.
	frames := req.Dialect == perigee.DialectGemini && !m.undo.Needed()
	out := answer{relay: wire.NewRelay(&req.Origin, yield), upstream: u.opts.Name, frames: frames, undo: m.undo}
	// An error with status 200 comes in one piece, also where a stream was requested.
	if inOnePiece := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"); req.Stream && !inOnePiece {
		err = out.relay.Stream(sse.NewReader(resp.Body), watchdog, u.opts.Idle, &out)
	} else {
		err = out.relay.Whole(resp.Body, maxAnswer, &out)
	}
	if err != nil && !out.relay.Left() {
		return u.explain(ctx, req.Model, err)
	}
	return nil
}

// A message is the body for the provider, the function that undoes the adaptation in its answer,
// and notes for the client.
type message struct {
	body   [][]byte        // in pieces
	memory *perigee.Buffer // of the body; nil if it is the client's, or not recycled
	undo   adapt.Undo
	notes  []perigee.Note
}

// giveBack releases the body after it was sent, once.
func (m *message) giveBack() {
	m.memory.Release()
	m.body, m.memory = nil, nil
}

// message returns the message to send: the client's own bytes if possible, the adapted prompt
// otherwise.
func (u *Upstream) message(req *perigee.Request, method string) (m message, err error) {
	if isVerbatim(req) {
		body, notes, err := ownBytes(req)
		return message{body: [][]byte{body}, notes: notes}, err
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, err
	}
	prompt, m.undo, m.notes = adapt.ForGemini(prompt, models.Of(req.Model))
	if err := req.RefuseIfStrict(m.notes); err != nil {
		return m, err
	}
	if method == "countTokens" {
		m.body = [][]byte{dialect.EncodeCountRequest(prompt, req.Model)}
	} else {
		m.encode(req, prompt)
	}
	return m, nil
}

// encode writes a prompt into a buffer of package wire. The body may refer to the client's.
func (m *message) encode(req *perigee.Request, prompt *perigee.Prompt) {
	pieces, buffer := dialect.EncodePieces(prompt, wire.Buffer)
	clients := req.Buffer
	if len(pieces) == 1 || clients != nil && !clients.Retain() {
		clients = nil
	}
	m.body, m.memory = pieces, perigee.NewBuffer(func() {
		wire.Recycle(buffer)
		clients.Release()
	})
}

// isVerbatim reports whether the client's own bytes can be sent: they are in the Gemini dialect,
// and the model is one that the dialect was made for. Claude behind the same API has rules that
// clients of the dialect do not follow.
func isVerbatim(req *perigee.Request) bool {
	return req.Verbatim(perigee.DialectGemini) && models.Of(req.Model).Family != models.Claude
}

// ownBytes returns the client's bytes with the name of the routed model, and with the thinking
// that this name asks for or that its output limit has room for. A strict request gets the error
// of the provider instead of the latter.
func ownBytes(req *perigee.Request) (body []byte, notes []perigee.Note, err error) {
	body = req.Body
	if beyond := !req.Strict && req.ThinksBeyondOutput; beyond || req.Thinking != nil {
		prompt, err := req.Prompt()
		if err != nil {
			return nil, nil, err
		}
		fitted, _, changes := adapt.ForGemini(prompt, models.Of(req.Model))
		if fitted.Generation.Thinking != nil {
			body = dialect.SetThinking(body, fitted.Generation.Thinking)
		}
		if beyond {
			notes = slices.DeleteFunc(changes, func(n perigee.Note) bool { return !strings.HasPrefix(n.Subject, "thinking ") })
		}
	}
	if req.NamesModel {
		body, err = dialect.RewriteModel(body, req.Model)
	}
	return body, notes, err
}

// CountTokens returns the API's count.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	m, err := u.message(req, "countTokens")
	if err != nil {
		return nil, err
	}
	raw, err := u.call(ctx, &req.Origin, req.Model, "countTokens", wire.NewBody(m.body...))
	if err != nil {
		return nil, err
	}
	count, err := dialect.DecodeTokenCount(raw)
	if err != nil {
		return nil, u.malformed(req.Model, err)
	}
	count.Upstream, count.Model = u.opts.Name, req.Model
	if req.Dialect == perigee.DialectGemini {
		count.Raw = raw
	}
	return count, nil
}

// Models returns all pages of the API's list.
func (u *Upstream) Models(ctx context.Context) ([]perigee.Model, error) {
	var all []perigee.Model
	page := ""
	for range 100 { // a provider with more pages is repeating them
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
			return nil, u.malformed("", err)
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
