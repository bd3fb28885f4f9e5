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
)

// DefaultURL is where the official API lives.
const DefaultURL = "https://generativelanguage.googleapis.com"

// An answer that is not streamed and an error's explanation are read whole, up to these sizes.
const (
	maxAnswer = 256 << 20
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
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	// Redirects are not followed: they would carry the key to wherever they point.
	client := &http.Client{Transport: opts.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return &Upstream{opts: opts, client: client, keys: newKeyring(opts.Keys)}
}

// Close drops idle connections.
func (u *Upstream) Close() error {
	u.client.CloseIdleConnections()
	return nil
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
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		for i := range m.notes {
			if !yield(perigee.Event{Kind: perigee.EventNote, Note: &m.notes[i]}, nil) {
				return
			}
		}
		outgoing := &sent{body: m.body}
		defer outgoing.wait()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		dog := watch(cancel, u.opts.FirstByte, errFirstByte)
		defer dog.stop()
		resp, err := u.post(ctx, req.Model, method, outgoing)
		if err != nil {
			yield(perigee.Event{}, u.explain(ctx, req.Model, err))
			return
		}
		defer resp.Body.Close()

		// The provider's own chunks are no use to a client that knows its tools by other names.
		frames := req.Dialect == perigee.DialectGemini && !m.back.Needed()
		out := answer{upstream: u, frames: frames, back: m.back, decoder: dialect.Decoder{Outline: frames}, yield: yield}
		if req.Stream {
			err = out.stream(sse.NewReader(resp.Body), dog)
		} else {
			err = out.whole(resp.Body)
		}
		if err != nil && !out.left {
			yield(perigee.Event{}, u.explain(ctx, req.Model, err))
		}
	}
}

// A message is what is sent to the provider, what has to be undone in its answer, and what the client should
// know about it.
type message struct {
	body  []byte
	back  prepare.Back
	notes []perigee.Note
}

// message returns what to send: the client's own bytes if they are in this dialect, the prompt written anew
// otherwise.
func (u *Upstream) message(req *perigee.Request, method string) (m message, err error) {
	if req.Verbatim(perigee.DialectGemini) {
		m.body = req.Body
		if req.NamesModel {
			m.body, err = dialect.RewriteModel(req.Body, req.Model)
		}
		return m, err
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, err
	}
	prompt, m.back, m.notes = prepare.ForGemini(prompt, models.Of(req.Model))
	if method == "countTokens" {
		m.body = dialect.EncodeCountRequest(prompt, req.Model)
	} else {
		m.body = dialect.EncodeRequest(prompt)
	}
	return m, nil
}

// CountTokens asks the API to count.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	m, err := u.message(req, "countTokens")
	if err != nil {
		return nil, err
	}
	raw, err := u.call(ctx, req.Model, "countTokens", &sent{body: m.body})
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

// Embed asks the API for vectors.
func (u *Upstream) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	method, body := "batchEmbedContents", []byte(nil)
	if req.Dialect == perigee.DialectGemini {
		if !req.Batch {
			method = "embedContent"
		}
		var err error
		if body, err = dialect.RewriteModel(req.Body, req.Model); err != nil {
			return nil, err
		}
	} else {
		body = dialect.EncodeEmbed(req)
	}
	raw, err := u.call(ctx, req.Model, method, &sent{body: body})
	if err != nil {
		return nil, err
	}
	e := &perigee.Embeddings{Upstream: u.opts.Name, Model: req.Model}
	if req.Dialect == perigee.DialectGemini {
		e.Raw = raw
		return e, nil
	}
	if e.Vectors, err = dialect.DecodeEmbeddings(raw); err != nil {
		return nil, u.garbled(req.Model, err)
	}
	return e, nil
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
