package perigee

import "context"

// Around is an Upstream around another one, and can do what that one can. Who changes something on the way embeds it and
// writes the methods that differ.
type Around struct{ Upstream }

// CountTokens asks the Upstream inside.
func (a Around) CountTokens(ctx context.Context, req *Request) (*TokenCount, error) {
	counter, ok := a.Upstream.(TokenCounter)
	if !ok {
		return nil, Errorf(ClassUnimplemented, "this upstream counts no tokens")
	}
	return counter.CountTokens(ctx, req)
}

// Embed asks the Upstream inside.
func (a Around) Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error) {
	embedder, ok := a.Upstream.(Embedder)
	if !ok {
		return nil, Errorf(ClassUnimplemented, "this upstream makes no embeddings")
	}
	return embedder.Embed(ctx, req)
}

// Models asks the Upstream inside. One that cannot say has none to list.
func (a Around) Models(ctx context.Context) ([]Model, error) {
	lister, ok := a.Upstream.(ModelLister)
	if !ok {
		return nil, nil
	}
	return lister.Models(ctx)
}
