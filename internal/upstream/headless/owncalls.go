package headless

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/dialect/gemini"
	"perigee/internal/intercept/cloud"
	"perigee/internal/lib/sse"
	"perigee/internal/route/record"
	"perigee/internal/upstream/antigravity"
)

// A Recording records the calls that language servers make themselves: summaries, completions,
// queries about the account. All language servers share one, before and after a reload. Before
// Use, and in a nil Recording, nothing is recorded.
type Recording struct {
	recorder atomic.Pointer[record.Recorder]
}

// Use sets the recorder for later calls.
func (r *Recording) Use(recorder *record.Recorder) { r.recorder.Store(recorder) }

// follow follows a call that the language server makes itself, and starts its record.
func (s *Server) follow(p cloud.OwnRequest) cloud.Follower {
	c := &ownCall{server: s, token: p.Token}
	// the agent's calls for a prompt are in the record of the prompt
	if s.opts.Recording == nil || p.Cascade != "" {
		return c
	}
	recorder := s.opts.Recording.recorder.Load()
	if recorder == nil {
		return c
	}
	origin := perigee.Origin{
		ID: perigee.NewCallID(s.opts.Now()), Dialect: perigee.DialectCloudCode, Client: perigee.Client{Name: perigee.LanguageServerClient},
		Method: http.MethodPost, Path: p.Path,
	}
	op := record.Operation{Name: perigee.OperationInfo, Model: p.Model, Quiet: true}
	if asks, stream := p.Generation(); asks {
		op.Name, op.Stream = perigee.OperationGenerate, stream
	}
	c.observation, c.tap, c.generates = recorder.Begin(op, &origin), origin.Log.Tap(), op.Name == perigee.OperationGenerate
	used, _ := s.credentialOf(p.Token.Reveal())
	c.observation.Observe(&perigee.Event{Kind: perigee.EventStart, Upstream: s.opts.Upstream.Name, Model: p.Model, Account: used.Email})
	if c.tap != nil && p.Request != nil {
		c.tap.Body(perigee.TapProviderRequest, p.Request)
	}
	return c
}

// Limits of the part of an own call's answer that is kept for its usage: the end of a stream, or
// an answer in one piece.
const (
	maxTail  = 128 << 10
	maxWhole = 4 << 20
)

// An ownCall is a call that the language server makes itself. Its bytes are kept while it runs and
// decoded after its end in another goroutine, so that the language server does not wait.
type ownCall struct {
	server      *Server
	token       perigee.Secret
	observation *record.Observation // nil if it is not recorded
	tap         perigee.Tap
	generates   bool

	status  int
	header  http.Header
	stream  bool   // the answer consists of events
	coded   bool   // it is compressed
	content []byte // bytes of the answer
	lost    bool   // the answer was larger than the limit
}

func (c *ownCall) Answer(status int, header http.Header) {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	encoding := header.Get("Content-Encoding")
	c.status, c.header = status, header.Clone()
	c.stream, c.coded = kind == "text/event-stream", encoding != "" && !strings.EqualFold(encoding, "identity")
	if c.observation != nil {
		c.observation.Observe(&perigee.Event{Kind: perigee.EventFlush}) // the time to the first byte
	}
	if tap, ok := c.tap.(perigee.AttemptTap); ok {
		tap.ProviderStatus(status)
	}
}

func (c *ownCall) Body(p []byte) {
	if c.tap != nil && !c.coded {
		c.tap.Body(perigee.TapProviderAnswer, p)
	}
	switch {
	case c.observation == nil && c.status < http.StatusBadRequest:
	case c.stream && !c.coded:
		if len(c.content)+len(p) > 2*maxTail {
			c.content = append(c.content[:0], c.content[max(0, len(c.content)-maxTail):]...)
		}
		c.content = append(c.content, p[max(0, len(p)-maxTail):]...)
	case c.lost || len(c.content)+len(p) > maxWhole:
		c.lost, c.content = true, nil
	default:
		c.content = append(c.content, p...)
	}
}

func (c *ownCall) End(left bool) {
	ctx, cancel := context.WithCancel(context.Background())
	if left {
		cancel()
	}
	complete := func() {
		defer cancel()
		body := c.body()
		var v providererr.Diagnosis
		if c.status >= http.StatusBadRequest {
			v = providererr.Classify(c.status, c.header, body, time.Now())
		}
		if c.observation != nil {
			c.complete(body, v.Error, left)
			c.observation.End(ctx)
		}
		if v.Kind == providererr.KindUnauthenticated {
			c.server.replaceToken(c.token)
		}
	}
	if !c.server.completing.Go(complete) {
		complete()
	}
}

// body returns the readable part of the answer.
func (c *ownCall) body() []byte {
	body := c.content
	if c.coded && !c.lost {
		if reader, err := cloud.NewDecoder(c.header.Get("Content-Encoding"), bytes.NewReader(body)); err == nil && reader != nil {
			body, _ = io.ReadAll(io.LimitReader(reader, 4*maxWhole)) // the readable part
			if c.tap != nil {
				c.tap.Body(perigee.TapProviderAnswer, body)
			}
		}
	}
	return body
}

// complete records the usage and the end of the answer.
func (c *ownCall) complete(body []byte, failure *perigee.Error, left bool) {
	switch {
	case c.status == 0 && !left:
		c.observation.Fail(perigee.Errorf(perigee.ClassUnavailable, "the cloud did not answer"))
	case failure != nil:
		c.observation.Fail(failure)
	case c.generates && c.decode(body):
	case !left:
		c.observation.Observe(&perigee.Event{Kind: perigee.EventFinish})
	}
}

// decode passes the usage and the end of a model's answer to the record, and reports whether there
// was an end. A stream may start in the middle of an event.
func (c *ownCall) decode(body []byte) (finished bool) {
	decoder := gemini.Decoder{Envelope: antigravity.ResponseMember}
	show := func(chunk []byte) {
		events, err := decoder.Decode(nil, chunk)
		if err != nil {
			return
		}
		for i := range events {
			switch events[i].Kind {
			case perigee.EventUsage, perigee.EventFinish:
				c.observation.Observe(&events[i])
			}
		}
	}
	if !c.stream {
		show(bytes.Trim(body, "[] \r\n\t")) // a list of one chunk, without alt=sse
		return decoder.Finished()
	}
	for reader := sse.NewReader(bytes.NewReader(body)); ; {
		event, err := reader.Next()
		if len(event.Data) > 0 {
			show(event.Data)
		}
		if err != nil {
			return decoder.Finished()
		}
	}
}
