package ask

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"perigee"
)

// An exchange is one prompt and its answer.
type exchange struct {
	asker        *ModelAsker
	request      *Request
	progress     func(Progress)
	conversation *conversation

	text   strings.Builder
	start  perigee.Event
	usage  *perigee.Usage
	finish *perigee.Finish
}

// run streams the answer.
func (e *exchange) run(ctx context.Context, model string) (Answer, error) {
	r := e.request
	prompt := e.conversation.prompt(r.Prompt)
	origin := perigee.Origin{ID: r.ID, Dialect: perigee.DialectMCP, Client: r.Client, MayUse: r.AllowsModel, Log: r.Log}
	request := perigee.NewRequest(origin, model, true, func() (*perigee.Prompt, error) { return prompt, nil })
	var failed error
	for event, err := range e.asker.opts.Upstream.Stream(ctx, request) {
		if err != nil {
			failed = err
			break
		}
		e.take(&event)
	}
	if failed != nil && ctx.Err() == nil && e.text.Len() == 0 {
		return Answer{}, declineUnlessInvalid(failed)
	}
	if e.usage == nil && (failed != nil || ctx.Err() != nil) {
		e.estimate(prompt)
	}
	return e.answer(ctx, failed)
}

// take adds an event.
func (e *exchange) take(event *perigee.Event) {
	if e.request.Observe != nil {
		e.request.Observe(event)
	}
	switch event.Kind {
	case perigee.EventStart:
		e.start.Upstream, e.start.Model = cmp.Or(event.Upstream, e.start.Upstream), cmp.Or(event.Model, e.start.Model)
	case perigee.EventUsage:
		e.usage = event.Usage
	case perigee.EventFinish:
		if event.Candidate == 0 {
			e.finish = event.Finish
		}
	case perigee.EventText:
		if event.Candidate != 0 || event.Text == "" {
			return
		}
		e.text.WriteString(event.Text)
		if e.progress != nil {
			e.progress(Progress{Text: e.shown()})
		}
	}
}

// shown returns the text for the client.
func (e *exchange) shown() string {
	if e.asker.opts.Simulated() {
		return simulatorLine + "\n" + e.text.String()
	}
	return e.text.String()
}

// estimate estimates the tokens of an answer that was broken off before the provider had reported
// its usage.
func (e *exchange) estimate(prompt *perigee.Prompt) {
	e.usage = &perigee.Usage{Input: prompt.EstimateTokens(), Output: perigee.EstimateTokens(e.text.Len(), 0)}
	e.request.Log.Note(perigee.EstimatedUsage)
}

// answer returns the answer at the end. A truncated answer is a part of the conversation as well.
func (e *exchange) answer(ctx context.Context, failed error) (Answer, error) {
	a := Answer{Text: e.shown(), Status: Done, Source: e.start.Upstream, Model: e.start.Model, Usage: e.usage}
	if e.asker.opts.Simulated() {
		a.Source = "simulator"
	}
	switch {
	case failed == nil:
		if err := e.refused(); err != nil {
			a.Status, a.Error = Failed, Fail(err).Error
		}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrTimeout):
		a.Status = Timeout
	case ctx.Err() != nil:
		a.Status = Cancelled
	default:
		a.Status, a.Error = Failed, Fail(failed).Error
	}
	if e.text.Len() > 0 || a.Status == Timeout {
		a.Conversation = e.conversation.save(ctx, e.request.Prompt, e.text.String())
	}
	return a, nil
}

// refused returns the reason why there is no text, or nil if there is some, or if the model
// returned an empty answer.
func (e *exchange) refused() error {
	switch f := e.finish; {
	case e.text.Len() > 0 || f == nil:
		return nil
	case f.Blocked || f.Kind == perigee.FinishFiltered:
		return perigee.Errorf(perigee.ClassInvalid, "the provider answers this prompt with nothing: %s", cmp.Or(f.Message, f.Reason)).
			WithHint("write it in other words")
	case f.Kind == perigee.FinishMalformed:
		return perigee.Errorf(perigee.ClassUnavailable, "the model answered nothing: %s", cmp.Or(f.Error, f.Message, f.Reason)).WithHint("ask again")
	}
	return nil
}
