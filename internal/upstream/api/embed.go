package api

import (
	"context"
	"fmt"
	"slices"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/wire"
)

// Embed returns the vectors of the API. Usage is reported by the API, or an estimate. An error has
// the usage of the requests before it, and of one that was canceled while the API worked on it.
func (u *Upstream) Embed(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	if req.Dialect == perigee.DialectGemini {
		return u.embedVerbatim(ctx, req)
	}
	e := &perigee.Embeddings{Upstream: u.opts.Name, Model: req.Model}
	for inputs := range slices.Chunk(req.Inputs, perigee.MaxEmbedBatch) {
		part := *req
		part.Inputs = inputs
		vectors, err := u.embed(ctx, &part, "batchEmbedContents", dialect.EncodeEmbed(&part), e)
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

// embedVerbatim sends the client's own request body, with only the model's name replaced.
func (u *Upstream) embedVerbatim(ctx context.Context, req *perigee.EmbedRequest) (*perigee.Embeddings, error) {
	method := "embedContent"
	if req.Batch {
		method = "batchEmbedContents"
	}
	body, err := dialect.RewriteModel(req.Body, req.Model)
	if err != nil {
		return nil, err
	}
	e := &perigee.Embeddings{Upstream: u.opts.Name, Model: req.Model}
	_, err = u.embed(ctx, req, method, body, e)
	return e, err
}

// embed makes one request, and adds its usage to e. An answer in the API's own dialect becomes
// e.Raw, and its vectors are not read.
func (u *Upstream) embed(ctx context.Context, req *perigee.EmbedRequest, method string, body []byte, e *perigee.Embeddings) ([][]float32, error) {
	verbatim := req.Dialect == perigee.DialectGemini
	estimate := func() int64 {
		if verbatim {
			return dialect.EstimateEmbed(req.Body)
		}
		return req.EstimateTokens()
	}
	raw, err := u.call(ctx, &req.Origin, req.Model, method, wire.NewBody(body))
	if err != nil {
		if ctx.Err() != nil {
			e.Usage.Input += estimate()
		}
		return nil, withUsage(e.Usage, err)
	}
	var vectors [][]float32
	var tokens int64
	if verbatim {
		e.Raw, tokens = raw, dialect.EmbedTokens(raw)
	} else if vectors, tokens, err = u.vectors(ctx, req, raw); err != nil {
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

// vectors reads an answer, within the memory budget of the call.
func (u *Upstream) vectors(ctx context.Context, req *perigee.EmbedRequest, raw []byte) (vectors [][]float32, tokens int64, err error) {
	if err := req.Reserve(vectorFactor * int64(len(raw))); err != nil {
		return nil, 0, u.explain(ctx, req.Model, err)
	}
	if vectors, tokens, err = dialect.DecodeEmbeddings(raw); err != nil {
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
