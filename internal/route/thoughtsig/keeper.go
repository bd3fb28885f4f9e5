package thoughtsig

import (
	"context"
	"iter"

	"perigee"
	"perigee/internal/adapt/models"
)

// A Keeper is an Upstream that remembers the signatures in answers and restores signatures that
// requests have lost. It also assigns an id to every call without one. It forwards the optional
// methods of the wrapped upstream.
type Keeper struct {
	perigee.Passthrough
	memory *Memory
}

// Around wraps an upstream. Requests that it forwards in the provider's own dialect are not changed.
// Other upstreams encode every request, and send content events along with frames: clients of the
// provider's own dialect may then send signatures of any model.
func (m *Memory) Around(next perigee.Upstream) *Keeper {
	return &Keeper{Passthrough: perigee.Passthrough{Upstream: next}, memory: m}
}

// reasoning returns the reasoning of the answers to a request.
func (k *Keeper) reasoning(req *perigee.Request) perigee.Reasoning {
	if r, ok := k.Upstream.(perigee.Reasoner); ok {
		return r.Reasoning(req)
	}
	return models.Of(req.Model).Family.Reasoning()
}

// forwarded returns a request that the wrapped upstream sends with the client's own bytes, and
// reports whether there is one. The upstream can ask what is remembered of the reasoning in them.
func (k *Keeper) forwarded(ctx context.Context, req *perigee.Request) (recalling *perigee.Request, s *scope, ok bool) {
	if !k.Forwards(req) {
		return nil, nil, false
	}
	var prompt *perigee.Prompt
	if req.Opening != nil {
		prompt = req.Opening()
	}
	s = newScope(req.Client, prompt, k.reasoning(req))
	s.sums = &k.memory.sums
	if req.Dialect == perigee.DialectGemini {
		return req, s, !k.mixed(ctx, req, s)
	}
	return req.WithRecall(&recall{ctx: ctx, memory: k.memory, scope: s, req: req}), s, true
}

// mixed reports whether a request in the Gemini API has reasoning of another provider. Its body is
// decoded only for clients that got an answer of another provider before.
func (k *Keeper) mixed(ctx context.Context, req *perigee.Request, s *scope) bool {
	if !k.memory.marked(ctx, s.mixedKey()) {
		return false
	}
	prompt, err := req.Prompt()
	if err != nil {
		return false // the provider reports the error
	}
	_, foreign := k.memory.restore(ctx, prompt, newScope(req.Client, prompt, s.Reasoning))
	return foreign
}

// Stream asks the wrapped upstream.
func (k *Keeper) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		sent, w, err := k.prepare(ctx, req)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		req.OnRelease(w.scope.release)
		defer w.end()
		for ev, err := range k.Upstream.Stream(ctx, sent) {
			if err == nil {
				w.observe(&ev)
				if ev.Kind == perigee.EventFinish {
					k.memory.flush(ctx)
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// prepare returns the request for the wrapped upstream, and the watch for its answer.
func (k *Keeper) prepare(ctx context.Context, req *perigee.Request) (sent *perigee.Request, w *watch, err error) {
	w = &watch{memory: k.memory, call: req.ID}
	if sent, w.scope, w.forwarded = k.forwarded(ctx, req); !w.forwarded {
		if sent, w.scope, err = k.restored(ctx, req); err != nil {
			return nil, nil, err
		}
	}
	if req.Dialect == perigee.DialectGemini {
		w.returned = w.forwarded
		if w.unsigned = !w.forwarded && w.scope.Provider != gemini; w.unsigned {
			k.memory.put(w.scope.mixedKey(), "", "mixed")
		}
	}
	return sent, w, nil
}

// restored returns the request with the reasoning for its provider, and the scope for the reasoning
// of the answer.
func (k *Keeper) restored(ctx context.Context, req *perigee.Request) (*perigee.Request, *scope, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	scope := newScope(req.Client, prompt, k.reasoning(req))
	scope.sums = &k.memory.sums
	p, foreign := k.memory.restore(ctx, prompt, scope)
	if foreign {
		if err := req.RefuseIfStrict([]perigee.Note{perigee.OtherReasoning}); err != nil {
			return nil, nil, err
		}
		req.Log.Note(perigee.OtherReasoning)
	}
	if p != prompt {
		return req.WithPrompt(p), scope, nil
	}
	return req, scope, nil
}

// CountTokens counts the tokens of the request that Stream would send.
func (k *Keeper) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if forwarded, _, ok := k.forwarded(ctx, req); ok {
		return k.Passthrough.CountTokens(ctx, forwarded)
	}
	restored, _, err := k.restored(ctx, req)
	if err != nil {
		return nil, err
	}
	return k.Passthrough.CountTokens(ctx, restored)
}
