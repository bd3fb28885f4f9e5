package api

import (
	"context"
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/lib/wire"
)

// Embed returns the vectors of the API. Usage is reported by the API, or an estimate. An error has
// the usage of the requests before it, and of one that was canceled while the API worked on it.
func (u *Upstream) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	if u.embed == nil {
		return perigee.Passthrough{}.Embed(ctx, req)
	}
	if err := u.offers(req.Model); err != nil {
		return nil, err
	}
	e := &perigee.Embeddings{Upstream: u.opts.Name, Model: req.Model}
	if req.Dialect == u.embed.dialect { // in one piece, with the client's own bytes
		_, err := u.vectorsOf(ctx, req, e)
		return e, err
	}
	for inputs := range slices.Chunk(req.Inputs, perigee.MaxEmbedBatch) {
		part := *req
		part.Inputs = inputs
		vectors, err := u.vectorsOf(ctx, &part, e)
		if err != nil {
			return nil, err
		}
		if len(vectors) != len(inputs) {
			return nil, withUsage(e.Usage, u.malformed(req.Model, fmt.Errorf("%d vectors for %d inputs", len(vectors), len(inputs))))
		}
		e.Vectors = append(e.Vectors, vectors...)
	}
	return e, nil
}

// vectorsOf makes one request, and adds its usage to e. An answer in the client's own dialect
// becomes e.Raw, and its vectors are not read.
func (u *Upstream) vectorsOf(ctx context.Context, req *perigee.EmbedRequest, e *perigee.Embeddings) ([][]float32, error) {
	verbatim := req.Dialect == u.embed.dialect
	estimate := func() int64 {
		if verbatim {
			return u.embed.estimate(req.Body)
		}
		return req.EstimateTokens()
	}
	body, err := u.embed.encode(req)
	if err != nil {
		return nil, err
	}
	q := quota{req.Model, perigee.OperationEmbed}
	out := u.outgoing(u.embed.target(u.opts.URL, req), wire.NewBody(body), &req.Origin, verbatim && u.embed.raw)
	raw, err := u.call(ctx, &req.Origin, &out, q)
	if err != nil {
		if ctx.Err() != nil {
			e.Usage.Input += estimate()
		}
		return nil, withUsage(e.Usage, err)
	}
	var vectors [][]float32
	var tokens int64
	if verbatim {
		e.Raw, e.Header, tokens = raw, out.answered, u.embed.tokens(raw)
	} else if vectors, tokens, err = u.decodeVectors(ctx, req, raw); err != nil {
		e.Usage.Input += estimate()
		return nil, withUsage(e.Usage, err)
	}
	if tokens == 0 {
		tokens, e.Estimate = estimate(), true
	}
	e.Usage.Input += tokens
	return vectors, nil
}

// vectorFactor is the memory charged for an answer with vectors, in multiples of its size: numbers
// of four bytes and more become eight each, and text again for the client.
const vectorFactor = 3

// decodeVectors reads an answer, within the memory budget of the call.
func (u *Upstream) decodeVectors(ctx context.Context, req *perigee.EmbedRequest, raw []byte) (vectors [][]float32, tokens int64, err error) {
	if err := req.Reserve(vectorFactor * int64(len(raw))); err != nil {
		return nil, 0, u.explain(ctx, req.Model, err)
	}
	if vectors, tokens, err = u.embed.decode(raw); err != nil {
		return nil, 0, u.malformed(req.Model, err)
	}
	return vectors, tokens, nil
}

// withUsage returns an error with the usage before it.
func withUsage(usage perigee.Usage, err error) error {
	if usage == (perigee.Usage{}) {
		return err
	}
	e := *perigee.AsError(err)
	e.Cause, e.Usage = err, usage
	return &e
}
