package ask

import (
	"encoding/json"

	"perigee"
	"perigee/internal/route/record"
)

// A call is the record of an ask.
type call struct {
	observation *record.Observation
	started     bool // the source has reported the upstream and the model
	finished    bool // the source has reported how the answer ended
	spent       bool // the source has reported the usage

	prompt string
	log    *perigee.CallLog
}

// begin records an ask as open, and sets the functions of the request that collect reports of its
// source.
func (s *Service) begin(r *Request) *call {
	origin := &perigee.Origin{ID: r.ID, Dialect: perigee.DialectMCP, Client: r.Client, Log: r.Log, Body: r.body()}
	c := &call{prompt: r.Prompt, observation: s.opts.Record.Begin(record.Operation{Name: perigee.OperationGenerate, Model: r.Model, Stream: true}, origin)}
	r.Log, c.log = origin.Log, origin.Log
	r.Observe = func(e *perigee.Event) {
		c.started = c.started || e.Kind == perigee.EventStart
		c.finished = c.finished || e.Kind == perigee.EventFinish
		c.spent = c.spent || e.Kind == perigee.EventUsage && e.Usage != nil
		c.observation.Observe(e)
	}
	return c
}

// body returns the client's request, for the trace of the call.
func (r *Request) body() []byte {
	asked := *r
	asked.ID, asked.Client = "", perigee.Client{}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil // every text can be encoded
	}
	return body
}

// conclude records the outcome of the ask.
func (c *call) conclude(answer *Answer, err error) {
	if err != nil {
		c.observation.Fail(err)
		return
	}
	c.complete(answer)
	switch {
	case answer.Status == Failed:
		c.observation.Fail(answer.Error.err())
	case answer.Status == Cancelled:
		c.observation.Fail(perigee.Errorf(perigee.ClassCanceled, "the prompt was cancelled"))
	case !c.finished:
		c.observation.Observe(&perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: string(answer.Status)}})
	}
}

// complete records data that the source has not reported by events.
func (c *call) complete(answer *Answer) {
	if !c.started {
		c.observation.Observe(&perigee.Event{Kind: perigee.EventStart, Upstream: answer.Source, Model: answer.Model})
		if answer.Text != "" {
			c.observation.Observe(&perigee.Event{Kind: perigee.EventText, Text: answer.Text})
		}
	}
	usage := answer.Usage
	// unreported tokens also count for the limits of a key
	if usage == nil && !c.spent && answer.Text != "" {
		usage = &perigee.Usage{Input: perigee.EstimateTokens(len(c.prompt), 0), Output: perigee.EstimateTokens(len(answer.Text), 0)}
		c.log.Note(perigee.EstimatedUsage)
	}
	if usage != nil {
		c.observation.Observe(&perigee.Event{Kind: perigee.EventUsage, Usage: usage})
	}
}

// err returns the failure as an error. For a nil failure it returns one without a reason.
func (f *Failure) err() *perigee.Error {
	if f == nil {
		return perigee.Errorf(perigee.ClassInternal, "the prompt failed without a reason")
	}
	return &perigee.Error{Class: f.Class, Message: f.Message, Hint: f.Hint, Public: f.Public}
}
