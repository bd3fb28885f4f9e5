// Package until ends an answer at a stop sequence and says which one it was.
//
// The providers take stop sequences and obey them, but do not say that they did: an answer that met one looks like an answer
// that had nothing more to say. For clients that want to know (perigee.Request.NameStop), the sequences stay here, the
// text is watched as it comes, and what ends it is named in the finish. The daemon puts it around each upstream.
package until

import (
	"context"
	"iter"

	"perigee"
)

// An Upstream ends answers where their clients want them to end. It can do what the upstream inside can.
type Upstream struct{ perigee.Around }

// Around returns an Upstream around next.
func Around(next perigee.Upstream) *Upstream { return &Upstream{perigee.Around{Upstream: next}} }

// Stream asks the upstream inside. When the client wants to know which stop sequence ended its answer, the answer ends here with
// the first one that it says in full, and the rest is not waited for.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	if !req.NameStop {
		return u.Around.Stream(ctx, req)
	}
	return func(yield func(perigee.Event, error) bool) {
		prompt, err := req.Prompt()
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		a := answer{asked: prompt.EstimateTokens(), watch: newWatch(prompt.Generation.Stop), yield: yield}
		a.run(u.Around.Stream(ctx, unstopped(req, prompt)))
	}
}

// unstopped is the request without its stop sequences. It asks for a stream, so that there is something to leave.
func unstopped(req *perigee.Request, prompt *perigee.Prompt) *perigee.Request {
	without := *prompt
	without.Generation.Stop = nil
	req = req.WithPrompt(&without)
	req.Stream, req.NameStop = true, false
	return req
}

// An answer is passed on until it says a stop sequence.
type answer struct {
	asked int64 // tokens of the prompt, about: the prompt itself is released while the answer goes on
	watch watch
	held  string // may be the beginning of a sequence
	seal  string // of what is held
	met   string // the sequence that was said; empty: none yet
	yield func(perigee.Event, error) bool

	usage    perigee.Usage // the last that the provider named
	priced   bool          // that was behind the stop sequence
	said     int           // bytes of text and calls so far
	thought  int           // bytes of thinking so far
	pictures int
}

// run passes the stream on. Behind a stop sequence it is read only as far as it is at hand, since the usage may stand there: most
// providers name it with every piece. Where it does not, it is estimated, because waiting for it means paying for the rest.
func (a *answer) run(stream iter.Seq2[perigee.Event, error]) {
	for ev, err := range stream {
		if err != nil && a.met == "" {
			if a.release(false) {
				a.yield(perigee.Event{}, err)
			}
			return
		}
		if err != nil {
			break // the answer was complete before
		}
		if !a.pass(ev) {
			return
		}
		if a.met != "" && (a.priced || !ev.More) {
			break
		}
	}
	if a.met != "" {
		if a.priced || a.estimate() {
			a.yield(perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP", Stop: a.met}}, nil)
		}
		return
	}
	a.release(false)
}

// estimate says what the answer has cost as far as it was generated, and that this is an estimate. It says whether the caller is
// still there.
func (a *answer) estimate() bool {
	u := a.usage
	if u.Input == 0 {
		u.Input = a.asked
	}
	u.Thinking = max(u.Thinking, perigee.EstimateTokens(a.thought, 0))
	u.Output = max(u.Output, u.Thinking+perigee.EstimateTokens(a.said, a.pictures))
	note := perigee.EstimatedUsage
	return a.yield(perigee.Event{Kind: perigee.EventNote, Note: &note, More: true}, nil) &&
		a.yield(perigee.Event{Kind: perigee.EventUsage, Usage: &u, More: true}, nil)
}

// weigh counts what an event says, for an estimate.
func (a *answer) weigh(ev *perigee.Event) {
	switch ev.Kind {
	case perigee.EventText:
		a.said += len(ev.Text)
	case perigee.EventThinking:
		a.thought += len(ev.Text)
	case perigee.EventCall:
		a.said += len(ev.Call.Name) + len(ev.Call.Args)
	case perigee.EventBlob:
		a.pictures++
	case perigee.EventUsage:
		a.usage = *ev.Usage
	}
}

// pass hands on what an event says, as far as it belongs to the answer. It says whether the caller is still there.
func (a *answer) pass(ev perigee.Event) bool {
	a.weigh(&ev)
	switch {
	case ev.Kind == perigee.EventUsage:
		a.priced = a.met != ""
		return a.yield(ev, nil)
	case ev.Kind == perigee.EventNote:
		return a.yield(ev, nil)
	case a.met != "":
		return true
	case ev.Kind == perigee.EventText:
		return a.text(ev)
	}
	return a.release(true) && a.yield(ev, nil)
}

// text hands on what cannot belong to a stop sequence any more.
func (a *answer) text(ev perigee.Event) bool {
	end, met := a.watch.read(ev.Text)
	end += len(a.held)
	text := a.held + ev.Text
	if met != "" {
		ev.Text, ev.Signature, a.held, a.met = text[:end-len(met)], "", "", met // the seal is on more than is left
		return ev.Text == "" || a.yield(ev, nil)
	}
	ev.Text, a.held = text[:len(text)-a.watch.open()], text[len(text)-a.watch.open():]
	if a.held != "" {
		a.seal, ev.Signature = ev.Signature, ""
	}
	return ev.Text == "" && ev.Signature == "" || a.yield(ev, nil)
}

// release hands on the text that was held back: what comes next, if there is more, is no text, so no sequence will be completed.
func (a *answer) release(more bool) bool {
	text, seal := a.held, a.seal
	a.held, a.seal = "", ""
	a.watch.reset()
	return text == "" || a.yield(perigee.Event{Kind: perigee.EventText, Text: text, Signature: seal, More: more}, nil)
}
