package server

import (
	"errors"
	"net/http"

	"perigee"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
)

// A dialect is an API that clients speak: which paths it has, how requests are decoded, and how
// answers and errors are encoded. Limits, memory, records and the order of the checks are the same
// for all of them (endpoint.serve), so that a new dialect is a codec and an entry in a table.
type dialect struct {
	name perigee.Dialect
	// owns reports whether errors about a path, which need not exist, have the shape of this
	// dialect.
	owns func(path string, header http.Header) bool
	// requestID is the header in which the official libraries look for the id of a request, to show
	// it with an error; empty if there is none.
	requestID   string
	encodeError func(c *call, status int, err *perigee.Error) []byte
	// headerKeys is set if keys are accepted only in headers, not in the URL.
	headerKeys bool
	// ignoredQuery are parameters of the URL that repeat a member of the body.
	ignoredQuery []string
	// passThrough is set if requests may reach the provider verbatim. Prompts of other dialects are
	// decoded here, and their media is fetched, because their clients expect any URL to work.
	passThrough bool
	endpoints   []endpoint
}

// An endpoint is a path of a dialect at which a model is asked.
type endpoint struct {
	path      string // as in route
	operation string // as records have it
	// pathModel returns the model that the wildcard of the path names, which is checked before the
	// body is read. It is nil if the body names the model.
	pathModel func(wildcard string) string
	decode    func(c *call, origin perigee.Origin) (*exchange, error)
}

// An exchange is a decoded request and the codec of its answer.
type exchange struct {
	request *perigee.Request
	embed   *perigee.EmbedRequest // instead of request
	calls   int                   // requests that the provider gets, where it is more than one

	// A generated answer is encoded by stream or by collect, as the client has asked.
	stream  func(req *perigee.Request) streamEncoder
	collect func(req *perigee.Request) collector
	// answer replaces both, for answers that are not one stream of events.
	answer func(req *perigee.Request) error

	count         func(*perigee.TokenCount) []byte // encodes a count of tokens
	estimateCount bool                             // also if a provider of this dialect fails to count
	vectors       func(*perigee.Embeddings) []byte // encodes embeddings
}

func (x *exchange) origin() *perigee.Origin {
	if x.embed != nil {
		return &x.embed.Origin
	}
	return &x.request.Origin
}

func (x *exchange) model() string {
	if x.embed != nil {
		return x.embed.Model
	}
	return x.request.Model
}

// dialects are all dialects that are served. The first one that owns a path determines the form of
// its errors; the last one does so for all other paths.
var dialects = []*dialect{&mcpDialect, &geminiDialect, &responsesDialect, &anthropicDialect, &imagesDialect, &chatDialect}

// dialectOf returns the dialect that determines the form of a path's errors about the request
// itself.
func (s *Server) dialectOf(path string, header http.Header) *dialect {
	for _, d := range s.dialects {
		if d.owns(path, header) {
			return d
		}
	}
	return s.dialects[len(s.dialects)-1]
}

// serve answers a request to a model: it applies the limits of the key, reads the body, decodes and
// checks it, fetches media, asks the upstream and encodes the answer. See admission.go for the
// order of the limits.
func (e *endpoint) serve(c *call, d *dialect) error {
	c.dialect = d
	if e.pathModel != nil {
		c.model = mount.Shorten(e.pathModel(c.wildcard))
	}
	if err := c.admit(); err != nil {
		return err
	}
	if e.pathModel != nil {
		if err := c.allow(e.pathModel(c.wildcard)); err != nil {
			return err
		}
	}
	body, err := c.takeBody()
	if err != nil {
		return err
	}
	x, err := e.decode(c, c.origin(body))
	if err != nil {
		return err
	}
	if err := c.check(x, e.pathModel != nil); err != nil {
		return err
	}
	err = c.ask(x)
	if !c.ongoing {
		c.freeBody()
	}
	return err
}

// check applies the limits that depend on the content of a request: the models and the rpm of the
// key, and strict.
func (c *call) check(x *exchange, allowed bool) error {
	origin := x.origin()
	for _, name := range mount.UnusedParameters(c.r.URL, c.dialect.ignoredQuery) {
		origin.Note(perigee.Note{Action: perigee.NoteDropped, Subject: "query parameter " + mount.Shorten(name)})
	}
	if !allowed {
		if err := c.allow(x.model()); err != nil {
			return err
		}
	}
	if err := origin.RefuseIfStrict(c.log.Notes()); err != nil {
		return err
	}
	if c.key != nil {
		if err := c.key.TakeMore(c.r.Context(), &c.sharedLimit, x.calls, c.opts.Now()); err != nil {
			return err
		}
	}
	if x.request == nil || c.dialect.passThrough {
		return nil
	}
	x.request.Ready = c.ready
	return nil
}

// ask asks the upstream and answers the client.
func (c *call) ask(x *exchange) error {
	switch {
	case x.vectors != nil:
		return c.askVectors(x)
	case x.count != nil:
		return c.askCount(x)
	case x.answer != nil:
		return x.answer(x.request)
	case x.request.Stream:
		return c.stream(x.request, x.stream(x.request))
	}
	return c.whole(x.request, x.collect(x.request))
}

func (c *call) askVectors(x *exchange) error {
	c.routed = true
	vectors, err := c.upstream.Embed(c.r.Context(), x.embed)
	notes := c.log.Notes()
	if err == nil && vectors.Estimate && !c.dialect.passThrough {
		notes = append(notes, perigee.EstimatedUsage)
	}
	c.note(notes)
	if err != nil {
		return err
	}
	c.describe(vectors.Upstream, vectors.Model)
	c.setHeader(vectors.Header)
	c.writeJSON(http.StatusOK, x.vectors(vectors))
	return nil
}

// estimatedCount marks a count that no upstream has made.
var estimatedCount = perigee.Note{Action: perigee.NoteMapped, Subject: "token count: estimated"}

func (c *call) askCount(x *exchange) error {
	count, err := c.countTokens(x)
	if err != nil {
		return err
	}
	notes := c.log.Notes()
	if count.Estimate {
		notes = append(notes, estimatedCount)
	}
	c.note(notes)
	c.describe(count.Upstream, count.Model)
	c.setHeader(count.Header)
	c.writeJSON(http.StatusOK, x.count(count))
	return nil
}

// estimates reports whether tokens are estimated after an upstream could not count them: it has no
// counter, or that fails for a reason that is neither the request's nor the key's.
func (c *call) estimates(x *exchange, failed *perigee.Error) bool {
	switch failed.Class {
	case perigee.ClassUnimplemented:
		return true
	case perigee.ClassRateLimited, perigee.ClassExhausted, perigee.ClassCapacity, perigee.ClassUnavailable:
		return !errors.Is(failed, perigee.ErrNoMemory) && (x.estimateCount || !c.opts.Forwards(c.r.Context(), x.request))
	}
	return false
}

func (c *call) countTokens(x *exchange) (*perigee.TokenCount, error) {
	c.routed = true
	count, err := c.upstream.CountTokens(c.r.Context(), x.request)
	if err == nil || !c.estimates(x, perigee.AsError(err)) {
		return count, err
	}
	prompt, err := x.request.Prompt()
	switch {
	case err == nil:
		return &perigee.TokenCount{Total: prompt.EstimateTokens(), Estimate: true}, nil
	case c.opts.Forwards(c.r.Context(), x.request): // the upstream may understand what perigee does not
		return &perigee.TokenCount{Total: perigee.EstimateBody(x.request.Body), Estimate: true}, nil
	}
	return nil, err
}

// origin describes where a request with this body came from.
func (c *call) origin(body []byte) perigee.Origin {
	c.log = &perigee.CallLog{}
	if c.buffer == nil {
		memory := c.body
		c.buffer = perigee.NewBuffer(func() { reqbody.Release(memory) })
	}
	o := perigee.Origin{ID: c.id, Dialect: c.dialect.name, Body: body, Client: clientkey.ProgramOf(c.r), Strict: c.state.Strict,
		Method: c.r.Method, Path: c.r.URL.RequestURI(), Header: c.r.Header, Replay: perigee.ReplayOf(c.r.Context()),
		Log: c.log, Free: c.freeBody, Buffer: c.buffer, Memory: &c.lease}
	if c.key != nil {
		o.Client.Key = c.key.Name
		o.MayUse = c.key.Allows
	}
	return o
}
