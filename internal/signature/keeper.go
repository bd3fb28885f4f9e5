package signature

import (
	"context"
	"iter"

	"perigee"
	"perigee/internal/models"
)

// A Keeper is an Upstream that remembers the signatures in answers and gives back those that requests have lost. It
// also sees to it that every call has an id to be remembered by. It can do what the upstream inside can.
type Keeper struct {
	perigee.Around
	memory *Memory
	all    bool // requests in the provider's own dialect, too
}

// Around returns a Keeper around next, which is left alone with requests in its own dialect.
func (m *Memory) Around(next perigee.Upstream) *Keeper {
	return &Keeper{Around: perigee.Around{Upstream: next}, memory: m}
}

// AroundAll returns a Keeper around an upstream that writes every request anew, and tells of what it answers also when it
// passes the provider's own chunks on. Then a client of the provider's own dialect need not know either whose signatures it
// has kept.
func (m *Memory) AroundAll(next perigee.Upstream) *Keeper {
	return &Keeper{Around: perigee.Around{Upstream: next}, memory: m, all: true}
}

// passes says whether a request is none of our business.
func (k *Keeper) passes(req *perigee.Request) bool {
	return req.Dialect == perigee.DialectGemini && !k.all
}

// Stream asks the upstream inside.
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
					k.memory.settle(ctx)
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// restored returns the request with the signatures that the model should see, and the scope of what is remembered.
func (k *Keeper) restored(ctx context.Context, req *perigee.Request) (*perigee.Request, *scope, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	scope := newScope(req.Client, prompt, models.Of(req.Model).Family.Seal())
	if p := k.memory.restore(ctx, prompt, scope); p != prompt {
		return req.WithPrompt(p), scope, nil
	}
	return req, scope, nil
}

// CountTokens asks the upstream inside, about the request that Stream would make.
func (k *Keeper) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if k.passes(req) {
		return k.Around.CountTokens(ctx, req)
	}
	restored, _, err := k.restored(ctx, req)
	if err != nil {
		return nil, err
	}
	return k.Around.CountTokens(ctx, restored)
}
