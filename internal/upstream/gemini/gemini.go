// Package gemini is the upstream for the official Gemini API with one or more API keys. A request that came
// in the Gemini dialect goes on as the bytes it came in; any other is written anew from its prompt.
//
// It classifies what goes wrong but decides nothing: whether to try elsewhere is routing's business. The
// one exception is its own keys, which nobody else knows: a key that is refused or used up gives way to the
// next before anything was answered.
package gemini

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
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

// newTransport keeps connections for reuse, many to one host, and leaves bodies as they are: a compressed
// event stream arrives in lumps.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
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
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		dog := watch(cancel, u.opts.FirstByte, errFirstByte)
		defer dog.stop()

		method := "generateContent"
		if req.Stream {
			method = "streamGenerateContent?alt=sse"
		}
		body, err := u.body(req, method)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		resp, err := u.post(ctx, req.Model, method, body)
		if err != nil {
			yield(perigee.Event{}, u.explain(ctx, req.Model, err))
			return
		}
		defer resp.Body.Close()

		out := answer{upstream: u, frames: req.Dialect == perigee.DialectGemini, yield: yield}
		if req.Stream {
			err = out.stream(sse.NewReader(resp.Body), func() { dog.reset(u.opts.Idle, errIdle) })
		} else {
			err = out.whole(resp.Body)
		}
		if err != nil && !out.left {
			yield(perigee.Event{}, u.explain(ctx, req.Model, err))
		}
	}
}

// An answer is one response on its way to the caller.
type answer struct {
	upstream *Upstream
	frames   bool // the caller speaks this dialect and wants the provider's own chunks
	decoder  dialect.Decoder
	events   []perigee.Event
	yield    func(perigee.Event, error) bool
	left     bool // the caller went away
}

func (a *answer) stream(r *sse.Reader, alive func()) error {
	for {
		ev, err := r.Next()
		if err == io.EOF {
			return a.end()
		}
		if err != nil {
			return err
		}
		alive()
		if len(ev.Data) == 0 || string(ev.Data) == "[DONE]" {
			continue
		}
		if err := a.chunk(ev.Data); err != nil || a.left {
			return err
		}
	}
}

func (a *answer) whole(r io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > maxAnswer {
		return perigee.Errorf(perigee.ClassUnavailable, "the provider's answer is larger than %d MiB", maxAnswer>>20)
	}
	if err := a.chunk(body); err != nil || a.left {
		return err
	}
	return a.end()
}

func (a *answer) chunk(data []byte) error {
	events, err := a.decoder.Decode(a.events[:0], data)
	if err != nil {
		return err
	}
	a.events = events
	if len(events) > 0 && events[0].Kind == perigee.EventStart {
		events[0].Upstream = a.upstream.opts.Name
		if !a.send(events[0]) {
			return nil
		}
		events = events[1:]
	}
	if a.frames && !a.send(perigee.Event{Kind: perigee.EventFrame, Frame: data}) {
		return nil
	}
	for i := range events {
		if !a.send(events[i]) {
			return nil
		}
	}
	return nil
}

func (a *answer) send(ev perigee.Event) bool {
	a.left = !a.yield(ev, nil)
	return !a.left
}

// end judges a response that came to its end: one that never said why it stopped was cut short.
func (a *answer) end() error {
	if a.decoder.Finished() {
		return nil
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the provider's answer ended before it was finished")
}

// body returns what to send: the client's own bytes if they are in this dialect, the prompt written anew
// otherwise.
func (u *Upstream) body(req *perigee.Request, method string) ([]byte, error) {
	if req.Dialect == perigee.DialectGemini {
		return withModel(req.Body, req.Model)
	}
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	if method == "countTokens" {
		return dialect.EncodeCountRequest(prompt, req.Model), nil
	}
	return dialect.EncodeRequest(prompt), nil
}

// withModel makes members that name the model agree with the URL. Most bodies have none, and finding that
// out is cheap.
func withModel(body []byte, model string) ([]byte, error) {
	if !bytes.Contains(body, []byte(`"model"`)) {
		return body, nil
	}
	return dialect.RewriteModel(body, model)
}

// CountTokens asks the API to count.
func (u *Upstream) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	body, err := u.body(req, "countTokens")
	if err != nil {
		return nil, err
	}
	raw, err := u.call(ctx, req.Model, "countTokens", body)
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
		if body, err = withModel(req.Body, req.Model); err != nil {
			return nil, err
		}
	} else {
		body = dialect.EncodeEmbed(req)
	}
	raw, err := u.call(ctx, req.Model, method, body)
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

// call makes a call that is answered in one piece.
func (u *Upstream) call(ctx context.Context, model, method string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := watch(cancel, u.opts.FirstByte, errFirstByte)
	defer dog.stop()
	resp, err := u.post(ctx, model, method, body)
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return u.read(ctx, resp, model)
}

func (u *Upstream) get(ctx context.Context, target string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dog := watch(cancel, u.opts.FirstByte, errFirstByte)
	defer dog.stop()
	resp, err := u.do(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, u.explain(ctx, "", err)
	}
	return u.read(ctx, resp, "")
}

func (u *Upstream) read(ctx context.Context, resp *http.Response, model string) ([]byte, error) {
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, u.explain(ctx, model, err)
	}
	if err := dialect.CheckAnswer(raw); err != nil {
		return nil, u.explain(ctx, model, err)
	}
	return raw, nil
}

func (u *Upstream) post(ctx context.Context, model, method string, body []byte) (*http.Response, error) {
	return u.do(ctx, http.MethodPost, u.opts.URL+"/v1beta/models/"+url.PathEscape(model)+":"+method, body)
}

// do sends a request with one key after the other until one of them is good. The response it returns has
// status 200.
func (u *Upstream) do(ctx context.Context, method, target string, body []byte) (*http.Response, error) {
	var last error
	for _, key := range u.keys.order(u.opts.Now()) {
		resp, err := u.try(ctx, method, target, body, key)
		if err == nil {
			return resp, nil
		}
		last = err
		refused, ok := errors.AsType[*perigee.Error](err)
		if !ok || !u.keys.blame(key, refused, u.opts.Now()) {
			return nil, err
		}
		u.opts.Logger.Warn("key gave way to the next", "upstream", u.opts.Name, "key", key.number, "class", refused.Class)
	}
	return nil, last
}

func (u *Upstream) try(ctx context.Context, method, target string, body []byte, key *key) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, err
	}
	// Headers are made from scratch: nothing of the inbound client leaks.
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if u.opts.UserAgent != "" {
		req.Header.Set("User-Agent", u.opts.UserAgent)
	}
	req.Header.Set("X-Goog-Api-Key", key.secret.Reveal())
	resp, err := u.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	explanation, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	e := dialect.DecodeError(resp.StatusCode, explanation)
	if e.Retry == 0 {
		e.Retry = retryAfter(resp.Header.Get("Retry-After"), u.opts.Now())
	}
	return nil, e
}

// retryAfter reads the header in both its forms.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

var (
	errFirstByte = errors.New("no answer within limits.first_byte")
	errIdle      = errors.New("no sign of life within limits.idle")
)

// explain says what went wrong in terms of this upstream: an error of the provider's gets its address, an
// error of the network its class.
func (u *Upstream) explain(ctx context.Context, model string, err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		c := *e
		c.Upstream, c.Model = u.opts.Name, model
		if c.Class == perigee.ClassUnauthenticated && c.Next == "" {
			c.Message = fmt.Sprintf("upstream %s: the provider refused the API key: %s", u.opts.Name, c.Message)
			c.Next = "check the keys of this upstream in the configuration"
		}
		return &c
	}
	e := &perigee.Error{Class: perigee.ClassUnavailable, Upstream: u.opts.Name, Model: model, Cause: err}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errFirstByte), errors.Is(cause, errIdle):
		e.Status = http.StatusGatewayTimeout
		e.Message = fmt.Sprintf("upstream %s: %v", u.opts.Name, cause)
	case cause != nil:
		e.Class = perigee.ClassCanceled
		e.Message = "the call was canceled"
	default:
		e.Message = fmt.Sprintf("upstream %s cannot be reached or broke off: %v", u.opts.Name, withoutURL(err))
	}
	return e
}

// withoutURL drops the method and address that net/http puts around an error; the upstream's name says it
// better.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (u *Upstream) garbled(model string, err error) error {
	return &perigee.Error{Class: perigee.ClassUnavailable, Upstream: u.opts.Name, Model: model,
		Message: fmt.Sprintf("upstream %s sent an answer that cannot be read: %v", u.opts.Name, err), Cause: err}
}
