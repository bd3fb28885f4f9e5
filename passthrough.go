package perigee

import "context"

// Passthrough wraps an Upstream and forwards its optional methods. A wrapper embeds it and overrides the methods that differ.
type Passthrough struct{ Upstream }

// CountTokens calls the wrapped Upstream.
func (a Passthrough) CountTokens(ctx context.Context, req *Request) (*TokenCount, error) {
	counter, ok := a.Upstream.(TokenCounter)
	if !ok {
		return nil, Errorf(ClassUnimplemented, "this upstream counts no tokens")
	}
	return counter.CountTokens(ctx, req)
}

// Embed calls the wrapped Upstream.
func (a Passthrough) Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error) {
	embedder, ok := a.Upstream.(Embedder)
	if !ok {
		return nil, Errorf(ClassUnimplemented, "this upstream makes no embeddings")
	}
	return embedder.Embed(ctx, req)
}

// Models calls the wrapped Upstream. One without the method lists no models.
func (a Passthrough) Models(ctx context.Context) ([]Model, error) {
	lister, ok := a.Upstream.(ModelLister)
	if !ok {
		return nil, nil
	}
	return lister.Models(ctx)
}

// SendRaw calls the wrapped Upstream.
func (a Passthrough) SendRaw(ctx context.Context, r *RawRequest, answer func(RawAnswer) error) error {
	sender, ok := a.Upstream.(RawSender)
	if !ok {
		return Errorf(ClassUnimplemented, "upstream %s does not send recorded requests as they are", r.Replay.Upstream).
			WithHint("replay without raw, or with --upstream at one that does")
	}
	return sender.SendRaw(ctx, r, answer)
}
