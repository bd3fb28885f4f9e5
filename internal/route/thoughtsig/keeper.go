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

// forwarded returns a request that the wrapped upstream sends with the client's own bytes, and
// reports whether there is one. The upstream can ask which thinking in them is another provider's:
// clients of the Gemini API alone return signatures only to the provider that made them.
func (k *Keeper) forwarded(ctx context.Context, req *perigee.Request) (*perigee.Request, bool) {
	if !k.Forwards(req) {
		return nil, false
	}
	if req.Dialect == perigee.DialectGemini {
		return req, true
	}
	kind := models.Of(req.Model).Family.SignatureKind()
	return req.WithForeign(func(signatures []string) map[string]bool { return k.memory.foreign(ctx, signatures, kind) }), true
}

// Stream asks the wrapped upstream.
func (k *Keeper) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	if forwarded, ok := k.forwarded(ctx, req); ok {
		return k.Upstream.Stream(ctx, forwarded)
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

// restored returns the request with the signatures for its model, and the scope for the signatures
// of the answer.
func (k *Keeper) restored(ctx context.Context, req *perigee.Request) (*perigee.Request, *scope, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	scope := newScope(req.Client, prompt, models.Of(req.Model).Family.SignatureKind())
	scope.sums = &k.memory.sums
	if p := k.memory.restore(ctx, prompt, scope); p != prompt {
		return req.WithPrompt(p), scope, nil
	}
	return req, scope, nil
}

// CountTokens counts the tokens of the request that Stream would send.
func (k *Keeper) CountTokens(ctx context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	if forwarded, ok := k.forwarded(ctx, req); ok {
		return k.Passthrough.CountTokens(ctx, forwarded)
	}
	restored, _, err := k.restored(ctx, req)
	if err != nil {
		return nil, err
	}
	return k.Passthrough.CountTokens(ctx, restored)
}
