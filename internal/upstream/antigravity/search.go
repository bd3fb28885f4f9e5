package antigravity

import (
	"context"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/prepare"
	"perigee/internal/rawjson"
	"perigee/internal/verdict"
)

// The gateway does not let a model search the web and call the client's functions in the same request. So the model gets
// a function for searching, and when it calls that one we ask a searching model ourselves and let the first one go on.

const (
	// maxRounds is how often a model may search before it has to answer.
	maxRounds = 8
	// maxSearches is how many searches are made for one call, however many the model wants at once.
	maxSearches = 16
	// maxFound is how much of what a search says is read.
	maxFound = 256 << 10
	// searchModel is asked to search where the provider does not name another one.
	searchModel = "gemini-2.5-flash"
)

// A step is what the model has said in one round, as it has to be sent back when the round ends with a search.
type step struct {
	parts    []perigee.Part
	text     []byte // of the last part, as long as it may go on
	searched []*perigee.FunctionCall
	others   bool // functions of the client's were called, too
	hidden   bool // what came last was a search, which the client does not see
}

// searches says whether the round is over for the model but not for the client: nothing but searches is open.
func (s *step) searches() bool { return len(s.searched) > 0 && !s.others }

// take notes an event and says whether the client should see it.
func (s *step) take(ev *perigee.Event, search string) bool {
	if ev.Candidate != 0 {
		return true
	}
	switch ev.Kind {
	case perigee.EventText, perigee.EventThinking:
		if thought := ev.Kind == perigee.EventThinking; !s.open(thought) {
			s.close()
			s.parts = append(s.parts, perigee.Part{Kind: perigee.PartText, Thought: thought})
		}
		s.text = append(s.text, ev.Text...)
		s.parts[len(s.parts)-1].Signature = ev.Signature
		s.hidden = false
	case perigee.EventSignature:
		if n := len(s.parts); n > 0 && s.parts[n-1].Signature == "" {
			s.parts[n-1].Signature = ev.Signature
		}
		return !s.hidden // a seal belongs to what came before it
	case perigee.EventCall:
		s.hidden = ev.Call.Name == search
		if !s.hidden {
			s.others = true
			return true
		}
		s.close()
		s.parts = append(s.parts, perigee.Part{Kind: perigee.PartCall, Call: ev.Call, Signature: ev.Signature})
		s.searched = append(s.searched, ev.Call)
		return false
	}
	return true
}

// open says whether the last part is a text that goes on: a seal ends it.
func (s *step) open(thought bool) bool {
	if len(s.parts) == 0 {
		return false
	}
	last := &s.parts[len(s.parts)-1]
	return last.Kind == perigee.PartText && last.Thought == thought && last.Signature == ""
}

// close gives the last part its text.
func (s *step) close() {
	if n := len(s.parts); n > 0 && s.parts[n-1].Kind == perigee.PartText {
		s.parts[n-1].Text = string(s.text)
	}
	s.text = s.text[:0]
}

// converse asks the model, and goes on as long as it wants to search.
func (c *call) converse(ctx context.Context, m *message) *verdict.Verdict {
	for round := 1; ; round++ {
		out := newAnswer(c, m)
		if v := c.ask(ctx, m, out); v != nil || c.left {
			return v
		}
		if out.usage != nil {
			add(&c.spent, *out.usage)
		}
		if out.step.others && len(out.step.searched) > 0 {
			c.late(perigee.Note{Action: perigee.NoteDropped, Subject: "search beside other tool calls"})
		}
		if !out.step.searches() {
			return nil
		}
		if round == maxRounds {
			return &verdict.Verdict{Kind: verdict.KindOther, Blame: verdict.ScopeRequest,
				Error: perigee.Errorf(perigee.ClassUnavailable, "the model did nothing but search, %d times", maxRounds).WithNext("ask again, or without search")}
		}
		next, v := c.searched(ctx, m, &out.step)
		if v != nil || c.left {
			return v
		}
		m = &message{Prepared: next, options: m.options, kind: m.kind, body: encode(next.Prompt, c.session)}
	}
}

// late notes what came up while the answer was written.
func (c *call) late(n perigee.Note) {
	if c.req.Late != nil {
		c.req.Late.Add(n)
	}
}

// enough is what the model is told when it wants to search once more than it may.
var enough = textMember("error", "no more searches can be made for this answer: answer with what was found")

// searched returns the message with what the model said and what its searches found.
func (c *call) searched(ctx context.Context, m *message, s *step) (prepare.Prepared, *verdict.Verdict) {
	s.close()
	var results []perigee.Part
	for _, call := range s.searched {
		found := enough
		if c.searches < maxSearches {
			c.searches++
			var v *verdict.Verdict
			if found, v = c.find(ctx, call.Args, m.Search); v != nil {
				return prepare.Prepared{}, v
			}
		}
		results = append(results, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{
			ID: call.ID, Name: call.Name, Response: found,
		}})
	}
	return m.Searched(c.spec, m.options, s.parts, results), nil
}

// find makes one search. What it found goes to the model as the function's result; where it was found goes to the
// client. A search that fails tells the model so, and does not fail the call.
func (c *call) find(ctx context.Context, args json.RawMessage, search *prepare.Search) (json.RawMessage, *verdict.Verdict) {
	query, urls := readQuery(args)
	inner := &finding{}
	sub := &call{
		upstream: c.upstream, spec: models.Of(searchModel), said: map[perigee.Note]bool{},
		req:   perigee.NewRequest(perigee.Origin{ID: c.req.ID, Client: c.req.Client, Memory: c.req.Memory}, searchModel, true, nil),
		yield: inner.take, attempts: c.attempts, retries: c.retries,
	}
	prompt := prepare.SearchPrompt(query, urls, search)
	m := message{Prepared: prepare.ForAntigravity(prompt, sub.spec, prepare.AntigravityOptions{}), kind: typeSearch}
	m.body = encode(m.Prompt, "")
	out := newAnswer(sub, &m)
	v := sub.ask(ctx, &m, out)
	c.attempts = sub.attempts
	add(&c.spent, sub.spent)
	if (v == nil || sub.begun) && out.usage != nil {
		add(&c.spent, *out.usage)
	}
	switch {
	case ctx.Err() != nil:
		return nil, c.failed(ctx, ctx.Err())
	case v != nil:
		c.upstream.opts.Logger.Warn("search failed", "upstream", c.upstream.opts.Name, "kind", v.Kind)
		return textMember("error", "the search failed: "+v.Error.Message), nil
	}
	if inner.grounding != nil {
		c.show(withoutSupports(inner.grounding))
	}
	return textMember("result", inner.text.String()), nil
}

// show passes on where a search has found something, as soon as there is an answer to show it with.
func (c *call) show(ev perigee.Event) {
	if c.begun {
		c.send(ev)
		return
	}
	ev.More = true
	c.found = append(c.found, ev)
}

// A finding is the answer to a search.
type finding struct {
	text      strings.Builder
	grounding *perigee.Event
}

func (f *finding) take(ev perigee.Event, _ error) bool {
	switch ev.Kind {
	case perigee.EventText:
		f.text.WriteString(ev.Text)
		return f.text.Len() < maxFound
	case perigee.EventGrounding:
		f.grounding = &ev
	}
	return true
}

// readQuery reads the arguments of the function that prepare declared. A model may get them wrong; then all of them
// are the query.
func readQuery(args json.RawMessage) (query string, urls []string) {
	if rawjson.Check(args) != nil {
		return string(args), nil
	}
	c := rawjson.NewCursor(args)
	if c.Kind() != rawjson.Object {
		return string(args), nil
	}
	for key := range c.Object() {
		switch {
		case string(key) == "query" && c.Kind() == rawjson.String:
			query = c.String()
		case string(key) == "urls" && c.Kind() == rawjson.Array:
			for range c.Array() {
				if c.Kind() == rawjson.String {
					urls = append(urls, c.String())
				}
			}
		}
	}
	if query == "" && len(urls) == 0 {
		query = string(args)
	}
	return query, urls
}

// withoutSupports leaves out which words of the search's answer each source is for: the client sees other words.
func withoutSupports(found *perigee.Event) perigee.Event {
	sources := *found.Grounding
	sources.Supports = nil
	return perigee.Event{Kind: perigee.EventGrounding, Grounding: &sources, Raw: dropSupports(found.Raw)}
}

func dropSupports(metadata json.RawMessage) json.RawMessage {
	c := rawjson.NewCursor(metadata)
	out := []byte{'{'}
	for key := range c.Object() {
		name := string(key)
		value := c.Raw()
		if name == "groundingSupports" || name == "grounding_supports" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = rawjson.AppendString(out, name)
		out = append(append(out, ':'), value...)
	}
	return append(out, '}')
}

func textMember(name, text string) json.RawMessage {
	out := append([]byte(`{"`), name...)
	return append(rawjson.AppendString(append(out, `":`...), text), '}')
}
