package thoughtsig

import (
	"context"
	"iter"

	"perigee"
	"perigee/internal/adapt/models"
)

// A Keeper is an Upstream that remembers the signatures in answers and restores those that requests
// have lost. It also gives every call an id to be remembered by. It has the abilities of the
// wrapped upstream.
type Keeper struct {
	perigee.Passthrough
	memory *Memory
	all    bool // requests in the provider's own dialect, too
}

// Around wraps an upstream that passes requests in its own dialect on as they are.
func (m *Memory) Around(next perigee.Upstream) *Keeper {
	return &Keeper{Passthrough: perigee.Passthrough{Upstream: next}, memory: m}
}

// AroundAll wraps an upstream that encodes every request anew, and sends content events also beside
// the provider's own chunks. Clients of the provider's own dialect then may send signatures of any
// model.
func (m *Memory) AroundAll(next perigee.Upstream) *Keeper {
	return &Keeper{Passthrough: perigee.Passthrough{Upstream: next}, memory: m, all: true}
}

// passes says whether a request is passed on untouched.
func (k *Keeper) passes(req *perigee.Request) bool {
	return req.Dialect == perigee.DialectGemini && !k.all
}

// Stream asks the wrapped upstream.
func (k *Keeper) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	if k.passes(req) {
		return k.Upstream.Stream(ctx, req)
	}
	return func(yield func(perigee.Event, error) bool) {
		restored, scope, err := k.restored(ctx, req)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		req.OnRelease(scope.release)
		w := watch{memory: k.memory, scope: scope, call: req.ID}
		defer w.end()
		for ev, err := range k.Upstream.Stream(ctx, restored) {
			if err == nil {
				w.see(&ev)
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

// restored returns the request with the signatures that the model should see, and the scope of what
// is remembered.
func (k *Keeper) restored(ctx context.Context, req *perigee.Request) (*perigee.Request, *scope, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	scope := newScope(req.Client, prompt, models.Of(req.Model).Family.SignatureKind())
	if p := k.memory.restore(ctx, prompt, scope); p != prompt {
		return req.WithPrompt(p), scope, nil
	}
	return req, scope, nil
}

// CountTokens asks the wrapped upstream about the request that Stream would make.
func (k *Keeper) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if k.passes(req) {
		return k.Passthrough.CountTokens(ctx, req)
	}
	restored, _, err := k.restored(ctx, req)
	if err != nil {
		return nil, err
	}
	return k.Passthrough.CountTokens(ctx, restored)
}
