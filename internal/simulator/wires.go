package simulator

import (
	"cmp"
	"net/http"
	"time"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

// A wire is an API of another provider than Google: its routes, credentials, rules, answers and
// errors. The rest is shared: directives, habits, faults, keys and the call log.
type wire interface {
	// key returns the API key of a request, or "".
	key(r *http.Request) string
	// model returns the model that a request names, or "", without checking anything.
	model(r *http.Request, body []byte) string
	// serve checks the request and answers it, after the faults of stageFront.
	serve(x *exchange)
	// problem writes an error of the shared code in the form of the wire. The rule of the error
	// identifies it: "fault.NAME", "quota.per_minute", "quota.per_day", "body.size".
	problem(x *exchange, e *statusError) problem
	// streamProblem is the same inside an answer that has begun with status 200. The first event is
	// the body of an answer that is not streamed.
	streamProblem(x *exchange, e *statusError) []completion.Event
}

// wireOf returns the wire that serves a request, or nil for the APIs of Google.
func (s *Server) wireOf(r *http.Request) wire {
	if s.claude.matches(r) {
		return s.claude
	}
	if r.URL.Path == "/v1/token" || isVertex(r.URL.Path) {
		return nil
	}
	for _, mounted := range s.wires {
		if mounted.matches(r) {
			return mounted.wire
		}
	}
	return nil
}

// mounts lists the wires. Requests of no wire are for the APIs of Google.
func (s *Server) mounts() []mount {
	return []mount{{s.messages.matches, s.messages}, {s.openAI.matches, s.openAI}, {s.ollama.matches, s.ollama}}
}

// mount is a wire and the requests that it serves; the first that matches is used.
type mount struct {
	matches func(r *http.Request) bool
	wire    wire
}

// problem is an error in the form of a wire.
type problem struct {
	status int
	header map[string]string
	body   []byte
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range p.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(p.status)
	w.Write(append(p.body, '\n'))
}

// composed is the reply of the model to a request of a wire, with the faults that shape the answer.
type composed struct {
	completion.Reply
	pace   time.Duration
	faults map[string]*Fault
}

// compose lets the model answer a request that the rules of a wire accepted. parsed is the
// conversation; thoughts are part of the reply if parsed.Config.Thinking.Include.
func (x *exchange) compose(model string, parsed *rules.Parsed) *composed {
	q := x.server.ask(rules.OtherAPI, rules.Model{ID: model, Family: rules.Foreign}, parsed, x.body)
	r := q.compose()
	c := &composed{faults: x.replyFaults()}
	if fault := c.faults["error_in_200"]; fault != nil {
		r.candidates = []candidate{{parts: []part{textPart(cmp.Or(fault.Message, outdatedText))}, finish: "STOP"}}
	}
	r.apply(c.faults)
	c.pace = r.delivery.pace
	c.Reply = completion.Reply{Model: model, Created: x.server.now().Unix(), Block: r.delivery.block,
		Prompt: promptTokens(parsed), Cached: x.server.cache.cached(model, parsed),
		Chunks: r.delivery.chunks, Seed: [32]byte(q.digest), Usage: string(r.delivery.usage),
		NoFinish: r.delivery.noFinish, DuplicateFinish: c.faults["duplicate_finish"] != nil,
		NoUsage: r.delivery.usage == usageNone, Repeated: r.delivery.cumulativeThoughts}
	for _, candidate := range r.candidates {
		c.Candidates = append(c.Candidates, candidate.neutral())
	}
	if len(c.Candidates) == 0 {
		c.Candidates = []completion.Candidate{{Finish: "SAFETY"}}
	}
	return c
}

// neutral returns the candidate without Google's form. Executed code has no counterpart.
func (c candidate) neutral() completion.Candidate {
	out := completion.Candidate{Finish: c.finish, Stop: c.stop}
	for _, p := range c.parts {
		switch {
		case p.Text != nil:
			out.Parts = append(out.Parts, completion.Part{Thought: p.Thought, Text: *p.Text})
		case p.Call != nil:
			out.Parts = append(out.Parts, completion.Part{Call: &completion.Call{Name: p.Call.Name, Args: p.Call.Args}})
		case p.Inline != nil:
			out.Parts = append(out.Parts, completion.Part{Image: &completion.Image{MIME: p.Inline.MIME, Data: p.Inline.Data}})
		}
	}
	if g := c.grounding; g != nil {
		out.Query = g.Queries[0]
		for i, chunk := range g.Chunks {
			at := g.Supports[i].Segment
			out.Sources = append(out.Sources, completion.Source{URL: chunk.Web.URI, Title: chunk.Web.Title, Start: at.Start, End: at.End})
		}
	}
	return out
}

// sendEvents streams an answer of a wire, with its faults.
func (x *exchange) sendEvents(c *composed, events []completion.Event) {
	switch {
	case c.faults["hang_after_headers"] != nil:
		x.hangAfterHeaders(time.Duration(c.faults["hang_after_headers"].Delay), true)
	case c.faults["empty_200"] != nil:
		x.stream(nil, c.pace, c.faults)
	default:
		x.stream(events, c.pace, c.faults)
	}
}

// sendBody writes an answer of a wire in one piece, with its faults.
func (x *exchange) sendBody(c *composed, body []byte) {
	switch {
	case c.faults["hang_after_headers"] != nil:
		x.hangAfterHeaders(time.Duration(c.faults["hang_after_headers"].Delay), false)
	case c.faults["empty_200"] != nil:
		x.sendWhole([]byte("{}"), c.faults)
	default:
		x.sendWhole(body, c.faults)
	}
}

// writeValue answers a small request of a wire, such as a list of models.
func (x *exchange) writeValue(v any) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(http.StatusOK)
	x.w.Write(append(encode(v), '\n'))
}
