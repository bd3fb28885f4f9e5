// Package perigee defines the types and interfaces of the product. All other packages of this
// module are adapters around them: dialects of clients, upstreams, and the watchers between them.
//
//	clients ──▶ server ─ decode ─▶ record ─▶ route ─▶ upstream ──▶ provider
//	            (dialect)             │                   │
//	        ◀── encode ◀── events ◀───┴───────────────────┘
//
// A prompt has the shape of the Gemini API, contents made of parts, and room for everything that
// clients of the other APIs ask for. Package adapt removes the rest for the provider that is chosen.
// This package imports only the standard library and none of the adapters.
package perigee

import (
	"context"
	"io"
	"iter"
	"math"
	"net/http"
)

// An Upstream answers a request with a stream of events. The stream ends after the first error,
// which is an *Error or wraps one whenever the upstream could determine the cause. Cancelling ctx
// or leaving the loop releases everything the call held, the request's bytes included: they may be
// used for something else from then on. Of a streamed answer they may be released as soon as the
// first content has been yielded (Request.Release). One Upstream serves many calls at once.
//
// A stream that ends without an error has yielded an EventFinish. Routing and recording are
// Upstreams around Upstreams; a non-streaming answer is the stream collected.
type Upstream interface {
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// A ModelLister is an Upstream that can list its models.
type ModelLister interface {
	Models(ctx context.Context) ([]Model, error)
}

type namesKey struct{}

// OnNames returns a context for Models of a ModelLister. f is called at most once, before Models
// returns, with a list without the details that the upstream still asks for.
func OnNames(ctx context.Context, f func([]Model)) context.Context {
	return context.WithValue(ctx, namesKey{}, f)
}

// ReportNames calls the function of OnNames, which may keep the list.
func ReportNames(ctx context.Context, list []Model) {
	if f, ok := ctx.Value(namesKey{}).(func([]Model)); ok {
		f(list)
	}
}

// A TokenCounter is an Upstream that counts a request's tokens without answering it.
type TokenCounter interface {
	CountTokens(ctx context.Context, req *Request) (*TokenCount, error)
}

// An Embedder is an Upstream that turns texts into vectors.
type Embedder interface {
	Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error)
}

// A Forwarder is an Upstream with a provider that speaks dialects of clients, or reads addresses.
type Forwarder interface {
	// Forwards reports whether the provider gets the Body of a request. Otherwise it gets the
	// prompt, in its own API.
	Forwards(req *Request) bool
	// ReadsURLs reports whether the provider fetches the files that a prompt refers to.
	ReadsURLs() bool
}

// A StopLimiter is an Upstream with a provider that takes a limited number of stop sequences.
type StopLimiter interface {
	// StopLimit returns how many stop sequences the provider takes of a request's prompt.
	StopLimit(req *Request) int
}

// A Reasoner is an Upstream that has its own kind of reasoning. For an Upstream without the method,
// the family of the model determines it.
type Reasoner interface {
	// Reasoning describes the reasoning in the answer to a request.
	Reasoning(req *Request) Reasoning
}

// Reasoning describes the reasoning of a model: which models can read it again, and how.
type Reasoning struct {
	// Provider is the same for all models that accept each other's reasoning. It is empty if there is
	// none to keep.
	Provider string
	Form     ReasoningForm
}

// A ReasoningForm is how a provider gets its reasoning back.
type ReasoningForm uint8

// The forms of reasoning.
const (
	// ReasoningInParts is a signature of each part of an answer: a text, a thought or a call.
	ReasoningInParts ReasoningForm = iota
	// ReasoningInBlocks is thinking that is signed or sealed, before the calls of the same turn.
	ReasoningInBlocks
	// ReasoningInText is thinking as plain text, in every message with calls.
	ReasoningInText
)

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

// Forwards asks the wrapped Upstream. One without the method forwards nothing.
func (a Passthrough) Forwards(req *Request) bool {
	f, ok := a.Upstream.(Forwarder)
	return ok && f.Forwards(req)
}

// ReadsURLs asks the wrapped Upstream. For one without the method, files are sent as data.
func (a Passthrough) ReadsURLs() bool {
	f, ok := a.Upstream.(Forwarder)
	return ok && f.ReadsURLs()
}

// StopLimit asks the wrapped Upstream. One without the method has no limit.
func (a Passthrough) StopLimit(req *Request) int {
	if l, ok := a.Upstream.(StopLimiter); ok {
		return l.StopLimit(req)
	}
	return math.MaxInt
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

// A RawSender is an Upstream that can send a recorded request to its provider again, unchanged
// except for credentials.
type RawSender interface {
	// SendRaw calls answer once with the provider's answer, which may be an error response. It
	// returns the error of answer, or an error of its own if there is no answer.
	SendRaw(ctx context.Context, r *RawRequest, answer func(RawAnswer) error) error
}

// CallResponse calls the wrapped Upstream.
func (a Passthrough) CallResponse(ctx context.Context, r *ResponseCall, answer func(RawAnswer) error) error {
	caller, ok := a.Upstream.(ResponseCaller)
	if !ok {
		return Errorf(ClassUnimplemented, "upstream %s stores no responses", r.Upstream)
	}
	return caller.CallResponse(ctx, r, answer)
}

// A ResponseCaller is an Upstream with a provider that stores the answers to requests in the
// Responses dialect that it got unchanged.
type ResponseCaller interface {
	// CallResponse sends a request about such an answer to the provider, and calls answer once with
	// the provider's answer of status 200. For any other status it returns an error.
	CallResponse(ctx context.Context, r *ResponseCall, answer func(RawAnswer) error) error
}

// A ResponseCall is a request about a response that a provider stores.
type ResponseCall struct {
	Upstream string      // where the response is stored
	Method   string      // of HTTP
	Header   http.Header // of the client
	Path     string      // escaped, with the query, behind the path of all responses: ID, ID/cancel
}

// A RawRequest is the body of a request that an upstream has sent to its provider before. Replay
// names the upstream to send it to.
type RawRequest struct {
	Origin           // its Body is the client's
	Operation string // OperationGenerate and the like
	Model     string // the name that the upstream used
	Stream    bool   // the client wanted the answer piece by piece
	Sent      []byte // to the provider
}

// A RawAnswer is the answer of a provider.
type RawAnswer struct {
	Status      int
	ContentType string
	Header      http.Header // that a client of the provider's dialect gets; SendRaw does not set it
	Account     string      // that was used; empty if the upstream has no accounts
	Body        io.Reader   // valid during the call of answer only
}
