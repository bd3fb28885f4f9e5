// Package perigee holds the product's words and its few interfaces. Everything else in this module is
// an adapter around them: ways in (dialects), ways out (upstreams), and what watches in between.
//
//	clients ──▶ server ─ decode ─▶ record ─▶ route ─▶ upstream ──▶ provider
//	            (dialect)             │                   │
//	        ◀── encode ◀── events ◀───┴───────────────────┘
//
// The internal form is Gemini-shaped (contents made of parts), because every upstream is. This package
// imports only the standard library and knows no adapter: reading it is enough to know what perigee does.
package perigee

import (
	"context"
	"iter"
)

// An Upstream answers a request with a stream of events. The stream ends after the first error, which is
// an *Error or wraps one whenever the upstream could tell what happened. Cancelling ctx or leaving the
// loop releases everything the call held, the request's bytes included: they may be used for something else from
// then on. Of a streamed answer they may be released as soon as the first content has been yielded (Request.Release).
// One Upstream serves many calls at once.
//
// A stream that ends without an error has yielded an EventFinish. Routing and recording are Upstreams
// around Upstreams; a non-streaming answer is the stream collected.
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
