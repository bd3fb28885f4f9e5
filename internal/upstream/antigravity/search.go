package antigravity

import (
	"context"
	"encoding/json"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// The gateway does not let a model search the web and call the client's functions in the same
// request. So the model gets a function for searching. When the model calls it, perigee asks a
// model that can search, and continues the conversation with the result.

const (
	// maxRounds is the number of searches after which a model has to answer.
	maxRounds = 8
	// maxSearches is the maximum number of searches for one call.
	maxSearches = 16
	// maxFound is the maximum number of bytes read of the answer to a search.
	maxFound = 256 << 10
	// searchModel makes the searches.
	searchModel = "gemini-2.5-flash"
)

// A step has the parts of one round of the model. They are sent back when the round ends with a
// search.
type step struct {
	parts    []perigee.Part
	text     []byte // text of the last part, as long as it may continue
	searched []*perigee.FunctionCall
	others   bool // functions of the client were called as well
	hidden   bool // the last part is a call of the search, which the client does not see
}

// searches reports whether the round is over for the model but not for the client: only searches
// are open.
func (s *step) searches() bool { return len(s.searched) > 0 && !s.others }

// take records an event and reports whether the client should see it.
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
		return !s.hidden // a signature belongs to the part before it
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

// open reports whether the last part is a text that may continue. A signature ends it.
func (s *step) open(thought bool) bool {
	if len(s.parts) == 0 {
		return false
	}
	last := &s.parts[len(s.parts)-1]
	return last.Kind == perigee.PartText && last.Thought == thought && last.Signature == ""
}

// close stores the text of the last part.
func (s *step) close() {
	if n := len(s.parts); n > 0 && s.parts[n-1].Kind == perigee.PartText {
		s.parts[n-1].Text = perigee.Plain(string(s.text))
	}
	s.text = s.text[:0]
}

// converse sends the prompt to the model, and repeats that with the results as long as the model
// calls the search.
func (c *call) converse(ctx context.Context, m *message) *providererr.Diagnosis {
	for round := 1; ; round++ {
		out := newAnswer(c, m)
		if v := c.ask(ctx, m, out); v != nil || c.left {
			return v
		}
		if out.usage != nil {
			c.spent = c.spent.Plus(*out.usage)
		}
		if out.step.others && len(out.step.searched) > 0 {
			c.addLateNote(perigee.Note{Action: perigee.NoteDropped, Subject: "search beside other tool calls"})
		}
		if !out.step.searches() {
			return nil
		}
		if round == maxRounds {
			return &providererr.Diagnosis{Kind: providererr.KindOther, Scope: providererr.ScopeRequest,
				Error: perigee.Errorf(perigee.ClassUnavailable, "the model only searched, %d times", maxRounds).WithHint("try again, or without search")}
		}
		next, v := c.withResults(ctx, m, &out.step)
		if v != nil || c.left {
			return v
		}
		m = &message{Adapted: next, options: m.options, kind: m.kind}
		m.encode(c.session)
	}
}

// addLateNote adds a note after the answer has started.
func (c *call) addLateNote(n perigee.Note) {
	// clients of the Gemini dialect get the provider's own chunks
	if c.req.Dialect != perigee.DialectGemini {
		c.req.Log.NoteOnce(n)
	}
}

// searchLimit is the result of a search beyond maxSearches.
var searchLimit = textMember("error", "no more searches can be made for this answer: answer with what was found")

// withResults returns the prompt with the parts of the round and the results of its searches.
func (c *call) withResults(ctx context.Context, m *message, s *step) (adapt.Adapted, *providererr.Diagnosis) {
	s.close()
	var results []perigee.Part
	for _, call := range s.searched {
		found := searchLimit
		if c.searches < maxSearches {
			c.searches++
			var v *providererr.Diagnosis
			if found, v = c.find(ctx, call.Args, m.Search); v != nil {
				return adapt.Adapted{}, v
			}
		}
		results = append(results, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{
			ID: call.ID, Name: call.Name, Response: found,
		}})
	}
	return m.Searched(c.spec, m.options, s.parts, results), nil
}

// find makes one search. Its text is the function's result for the model, its sources go to the
// client. An error becomes the function's result and does not fail the call.
func (c *call) find(ctx context.Context, args json.RawMessage, search *adapt.Search) (json.RawMessage, *providererr.Diagnosis) {
	query, urls := readQuery(args)
	inner := &finding{}
	sub := &call{
		upstream: c.upstream, spec: models.Of(searchModel),
		req:   perigee.NewRequest(perigee.Origin{ID: c.req.ID, Client: c.req.Client, Memory: c.req.Memory}, searchModel, true, nil),
		yield: inner.take, attempts: c.attempts, retries: c.retries,
	}
	prompt := adapt.SearchPrompt(query, urls, search)
	m := message{Adapted: adapt.ForAntigravity(prompt, sub.spec, adapt.AntigravityOptions{}), kind: typeSearch}
	m.encode("")
	out := newAnswer(sub, &m)
	v := sub.ask(ctx, &m, out)
	c.attempts = sub.attempts
	c.spent = c.spent.Plus(sub.spent)
	if (v == nil || sub.started) && out.usage != nil {
		c.spent = c.spent.Plus(*out.usage)
	}
	switch {
	case ctx.Err() != nil:
		return nil, c.failed(ctx, ctx.Err())
	case v != nil:
		c.upstream.opts.Logger.Warn("search failed", "upstream", c.upstream.opts.Name, "kind", v.Kind)
		return textMember("error", "the search failed: "+v.Error.Message), nil
	}
	if inner.grounding != nil {
		c.emitResults(withoutSupports(inner.grounding))
	}
	return textMember("result", inner.text.String()), nil
}

// emitResults emits the sources of a search as soon as the answer has started.
func (c *call) emitResults(ev perigee.Event) {
	if c.started {
		c.send(ev)
		return
	}
	ev.More = true
	c.searchResults = append(c.searchResults, ev)
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

// readQuery reads the arguments of the function that adapt declared. A model may get them wrong;
// then all of them are the query.
func readQuery(args json.RawMessage) (query string, urls []string) {
	var found struct {
		Query any
		URLs  any
	}
	_ = json.Unmarshal(args, &found) // the search then finds nothing
	query, _ = found.Query.(string)
	list, _ := found.URLs.([]any)
	for _, v := range list {
		if url, ok := v.(string); ok {
			urls = append(urls, url)
		}
	}
	if query == "" && len(urls) == 0 {
		query = string(args)
	}
	return query, urls
}

// withoutSupports removes the references from words of the search answer to its sources, because
// the client sees another text.
func withoutSupports(found *perigee.Event) perigee.Event {
	sources := *found.Grounding
	sources.Supports = nil
	return perigee.Event{Kind: perigee.EventGrounding, Grounding: &sources, Raw: dropSupports(found.Raw)}
}

func dropSupports(metadata json.RawMessage) json.RawMessage {
	var w rawjson.Writer
	w.Object()
	c := rawjson.NewCursor(metadata)
	for key := range c.Object() {
		if name := string(key); name != "groundingSupports" && name != "grounding_supports" {
			w.AnyKey(name).Raw(c.Raw())
		}
	}
	return w.EndObject().Buf
}

// textMember returns an object with one string.
func textMember(name, text string) json.RawMessage {
	return new(rawjson.Writer).Object().Key(name).String(text).EndObject().Buf
}
