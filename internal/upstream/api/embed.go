package api

import (
	"context"
	"errors"
	"fmt"
	"iter"

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
	if u.embed.lacks != nil {
		if err := u.embed.lacks(req.Model); err != nil {
			return nil, err
		}
	}
	x := &embedExchange{Upstream: u, req: req, answer: perigee.Embeddings{Upstream: u.opts.Name, Model: req.Model}}
	run := x.run
	if req.Dialect == u.embed.dialect {
		run = x.forward
	}
	if err := run(ctx); err != nil {
		return nil, withUsage(x.answer.Usage, err)
	}
	return &x.answer, nil
}

// An embedExchange is one call that makes embeddings.
type embedExchange struct {
	*Upstream
	req    *perigee.EmbedRequest
	answer perigee.Embeddings
}

// forward makes one request with the client's own bytes. Its answer is not decoded.
func (x *embedExchange) forward(ctx context.Context) error {
	body, err := x.embed.own(x.req)
	if err != nil {
		return err
	}
	estimate := func() int64 { return x.embed.estimate(x.req.Body) }
	raw, out, err := x.post(ctx, body, x.embed.raw, estimate)
	if err != nil {
		return err
	}
	x.answer.Raw, x.answer.Header = raw, out.answered
	x.count(x.embed.tokens(raw), estimate)
	return nil
}

// run makes as many requests as the inputs need, in the dialect of the API.
func (x *embedExchange) run(ctx context.Context) error {
	inputs, err := x.req.Inputs()
	if err != nil {
		return err
	}
	most, tokens := perigee.MaxEmbedBatch, int64(0)
	if x.embed.batch != nil {
		most, tokens = x.embed.batch(x.req.Model)
	}
	for batch := range batches(inputs, most, tokens) {
		body, notes, err := x.embed.encode(x.req.Model, batch)
		if err != nil {
			return err
		}
		if err := x.req.Lose(notes); err != nil {
			return err
		}
		estimate := func() int64 { return perigee.EstimateEmbedding(batch) }
		raw, _, err := x.post(ctx, [][]byte{body}, false, estimate)
		if err != nil {
			return err
		}
		vectors, tokens, err := x.vectors(ctx, raw)
		if err != nil {
			x.answer.Usage.Input += estimate()
			return err
		}
		x.count(tokens, estimate)
		if err := checkVectors(vectors, len(batch)); err != nil {
			return x.malformed(x.req.Model, err)
		}
		x.answer.Vectors = append(x.answer.Vectors, vectors...)
	}
	return nil
}

// checkVectors returns an error unless there is a vector of finite numbers for each input, and all
// have the same length.
func checkVectors(vectors [][]float32, inputs int) error {
	if len(vectors) != inputs {
		return fmt.Errorf("%d vectors for %d inputs", len(vectors), inputs)
	}
	for i, v := range vectors {
		if len(v) == 0 || len(v) != len(vectors[0]) {
			return fmt.Errorf("vector %d has %d numbers, and the first one has %d", i, len(v), len(vectors[0]))
		}
		for at, n := range v {
			if n-n != 0 { // infinite, or not a number
				return fmt.Errorf("vector %d has no finite number at index %d", i, at)
			}
		}
	}
	return nil
}

// batches divides inputs into the batches of one request each, in which all have the same dimensions.
// A batch has at most so many inputs, and so many tokens unless it has one input; 0 tokens are no limit.
func batches(inputs []perigee.EmbedInput, most int, tokens int64) iter.Seq[[]perigee.EmbedInput] {
	return func(yield func([]perigee.EmbedInput) bool) {
		for len(inputs) > 0 {
			n := 1
			for n < min(len(inputs), most) && inputs[n].Dimensions == inputs[0].Dimensions {
				n++
			}
			if tokens > 0 {
				n = fitting(inputs[:n], tokens)
			}
			if !yield(inputs[:n]) {
				return
			}
			inputs = inputs[n:]
		}
	}
}

// fitting returns how many of the first inputs have at most so many tokens together, but at least 1.
func fitting(inputs []perigee.EmbedInput, tokens int64) int {
	for i := range inputs {
		if tokens -= perigee.EstimateEmbedding(inputs[i : i+1]); tokens < 0 {
			return max(i, 1)
		}
	}
	return len(inputs)
}

// post makes one request. If the caller has left, the estimate is added to the usage.
func (x *embedExchange) post(ctx context.Context, body [][]byte, raw bool, estimate func() int64) ([]byte, *outgoing, error) {
	out := x.outgoing(x.embed.target(x.opts.URL, x.req), wire.NewBody(body...), &x.req.Origin, raw)
	answer, err := x.call(ctx, &x.req.Origin, &out, quota{x.req.Model, perigee.OperationEmbed})
	if err != nil && ctx.Err() != nil {
		x.answer.Usage.Input += estimate()
	}
	return answer, &out, err
}

// count adds the tokens of an answer, or the estimate if it reports none.
func (x *embedExchange) count(tokens int64, estimate func() int64) {
	usage := perigee.Usage{Input: tokens}
	if usage.Bound(); usage.Input == 0 {
		usage.Input, x.answer.Estimate = estimate(), true
	}
	x.answer.Usage.Input += usage.Input
}

// vectorFactor is the memory charged for an answer with vectors, in multiples of its size: numbers
// of four bytes and more become eight each, and text again for the client.
const vectorFactor = 3

// vectors reads an answer, within the memory budget of the call.
func (x *embedExchange) vectors(ctx context.Context, raw []byte) (vectors [][]float32, tokens int64, err error) {
	if err := x.req.Reserve(vectorFactor * int64(len(raw))); err != nil {
		return nil, 0, x.explain(ctx, x.req.Model, err)
	}
	vectors, tokens, err = x.embed.decode(raw)
	if _, explained := errors.AsType[*perigee.Error](err); explained {
		return nil, 0, x.explain(ctx, x.req.Model, err)
	}
	if err != nil {
		return nil, 0, x.malformed(x.req.Model, err)
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
