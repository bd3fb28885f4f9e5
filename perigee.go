// Package perigee holds the product's words and its few interfaces. Everything else in this module
// is an adapter around them: ways in (dialects), ways out (upstreams), and what watches in between.
//
//	clients ──▶ server ─ decode ─▶ record ─▶ route ─▶ upstream ──▶ provider
//	            (dialect)             │                   │
//	        ◀── encode ◀── events ◀───┴───────────────────┘
//
// The internal form is Gemini-shaped (contents made of parts), because every upstream is. This
// package imports only the standard library and knows no adapter: reading it is enough to know what
// perigee does.
package perigee

import (
	"context"
	"io"
	"iter"
)

// An Upstream answers a request with a stream of events. The stream ends after the first error,
// which is an *Error or wraps one whenever the upstream could tell what happened. Cancelling ctx or
// leaving the loop releases everything the call held, the request's bytes included: they may be
// used for something else from then on. Of a streamed answer they may be released as soon as the
// first content has been yielded (Request.Release). One Upstream serves many calls at once.
//
// A stream that ends without an error has yielded an EventFinish. Routing and recording are
// Upstreams around Upstreams; a non-streaming answer is the stream collected.
type Upstream interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// A ModelLister is an Upstream that can say which models it has.
type ModelLister interface {
	Models(ctx context.Context) ([]Model, error)
}

// A TokenCounter is an Upstream that counts a request's tokens without answering it.
type TokenCounter interface {
	CountTokens(ctx context.Context, req *Request) (*TokenCount, error)
}

// An Embedder is an Upstream that turns texts into vectors.
type Embedder interface {
	Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error)
}

// Passthrough wraps an Upstream and forwards its optional methods. A wrapper embeds it and
// overrides the methods that differ.
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

// A RawSender is an Upstream that can send a recorded request to its provider once more, as it is
// but for credentials.
type RawSender interface {
	// SendRaw calls answer once with what the provider answers, also if that is an error. Its own
	// error says that there is no answer, or is that of answer.
	SendRaw(ctx context.Context, r *RawRequest, answer func(RawAnswer) error) error
}

// A RawRequest is the body of a request to a provider, as an upstream has sent it before. The
// upstream to send it to is in Replay.
type RawRequest struct {
	Origin           // its Body is that of the client
	Operation string // OperationGenerate and the like
	Model     string // as the upstream has asked for it
	Stream    bool   // the client wanted the answer piece by piece
	Sent      []byte // to the provider
}

// A RawAnswer is what a provider answers.
type RawAnswer struct {
	Status      int
	ContentType string
	Account     string    // that was used; empty: the upstream has no accounts
	Body        io.Reader // valid during the call of answer only
}
