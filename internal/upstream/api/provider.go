package api

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// A Provider is what differs between the APIs that an Upstream can call. Everything in it is safe
// for concurrent use. Functions that make the URL of a request get the base URL of the upstream,
// which has no slash at its end.
type Provider struct {
	// authorize adds a key to the headers of a request. It is not called if there is no key.
	authorize func(h http.Header, key perigee.Secret)

	// access authorizes requests in place of keys. It is nil for a provider with keys.
	access access

	// address replaces the base URL of the configuration if it is not empty.
	address string

	// header has the headers of each request, unless the client or the configuration sets other
	// values. clientHeaders are prefixes of names, in canonical form: headers of clients that
	// begin with one of them are sent to a method of their dialect that is raw.
	header        http.Header
	clientHeaders []string

	// clientQuery has the names of query parameters of clients that such a method gets in the same
	// way.
	clientQuery []string

	// wire returns the API method that answers a request.
	wire func(req *perigee.Request) *Wire

	// lacks returns an error if the provider cannot have a model of this name. It may be nil.
	lacks func(model string) error

	// prepare is called before the message for a request is made. It asks the server for what the
	// message depends on, and returns the error of a request that cannot succeed. It may be nil.
	prepare func(ctx context.Context, u *Upstream, req *perigee.Request) error

	// hint returns the next step for an error about a model, or "" if that depends on the class of the
	// error alone. It may be nil.
	hint func(e *perigee.Error, model string) string

	// probe makes a request that costs nothing, and returns why calls would fail although the models
	// are listed. It may be nil.
	probe func(ctx context.Context, u *Upstream, list []perigee.Model) error

	// raw returns the URL that a recorded request was sent to. If it is nil, no recorded request
	// can be sent again.
	raw func(base string, r *perigee.RawRequest) string

	// reasoning describes the reasoning in the answer to a request. If it is nil, the family of the
	// model determines it.
	reasoning func(req *perigee.Request) perigee.Reasoning

	// pathInURL is set if the base URL of servers has the path of the API, such as /v1.
	pathInURL bool

	readsURLs bool // the provider fetches files on the web

	// responses is the part of a URL before the id of a response that the provider stores. It is
	// empty if it stores none.
	responses string

	models *listing   // nil if the provider has no list of models
	embed  *embedding // nil if the provider has no embeddings

	// decodeError reads the body of an error. status is 0 for an error inside an answer with
	// status 200.
	decodeError func(status int, body []byte) *perigee.Error

	// owns reports whether the API method wrote the body of an error, in its dialect, and not a server
	// before it. If it is nil, all are.
	owns func(body []byte) bool

	// barelyLimited is set if a rate limit without a delay is a quota that is used up.
	barelyLimited bool

	// checkAnswer returns an error if an answer in one piece, which came with status 200, cannot be
	// read or is itself an error.
	checkAnswer func(body []byte) error
}

// Providers returns, for each kind of upstream that has API keys, the provider of an upstream with
// this configuration.
var Providers = map[string]func(config.Upstream) *Provider{
	config.KindGemini:    func(config.Upstream) *Provider { return Gemini },
	config.KindOpenAI:    newOpenAI,
	config.KindAnthropic: Anthropic,
	config.KindOllama:    newOllama,
	config.KindVertex:    newVertex,
}

// An access authorizes requests with access tokens that it gets and renews itself. All methods may be
// called concurrently, after use.
type access interface {
	// use sets how tokens are requested. It is called once, before all other methods.
	use(transport http.RoundTripper, userAgent string)
	// authorize adds a token to a request, and to its URL what belongs to the account of the token. An
	// error ends the call.
	authorize(req *http.Request) error
	// refused is called for a request with a token that the provider has refused. The next request
	// gets another one.
	refused(req *http.Request)
	// secrets returns the credentials and the tokens, for a redactor.
	secrets() []perigee.Secret
	// unusable returns why no request can be authorized, or "" if that is not known.
	unusable() string
}

// A Wire is an API method of a provider that answers prompts.
type Wire struct {
	// dialect is the dialect of the method. Clients of that dialect get the provider's own chunks.
	dialect perigee.Dialect

	// raw is set if clients of the dialect get answers byte for byte, with the provider's headers and
	// errors. Otherwise they get the data of each chunk, and errors of perigee.
	raw bool

	// lines is set if a stream has lines in place of events.
	lines bool

	// snakeCase is set if members of requests may be written in snake case instead of lower camel case.
	snakeCase bool

	// stops is how many stop sequences the method takes; math.MaxInt means that it has no limit.
	stops int

	target func(base, model string, stream bool) string

	// message returns the body for a request: the client's own bytes if possible, the adapted
	// prompt otherwise.
	message func(req *perigee.Request) (message, error)

	// decoder returns a decoder for one answer: for its chunks if it is streamed, and otherwise for
	// the answer in one piece, which is its only chunk.
	decoder func(streamed bool) decoder

	repair repairer  // nil if no refused request is sent again
	count  *counting // nil if the provider cannot count the tokens of a request
}

// A repairer encodes a request anew that the provider refused. ok is false if the reason cannot be
// repaired.
type repairer func(req *perigee.Request, sent *message, refused error) (m message, ok bool)

// speaks reports whether the client gets the provider's own answer. A client of an API that is raw
// gets it only if the provider got the client's bytes.
func (w *Wire) speaks(req *perigee.Request) bool {
	return req.Dialect == w.dialect && (!w.raw || req.Verbatim(w.dialect))
}

// A decoder turns the chunks of one answer into events.
type decoder interface {
	// Decode appends the events of a chunk. For a chunk that is not an answer or that reports an
	// error, it returns that error.
	Decode(events []perigee.Event, chunk []byte) ([]perigee.Event, error)
	// Finished reports whether the answer has come to its end, as the method marks it. An answer
	// that stops before was cut short.
	Finished() bool
}

// A keeper is a decoder that keeps parts of an answer until more of it arrives, such as the arguments
// of a call.
type keeper interface {
	// Kept returns the approximate number of bytes that it keeps.
	Kept() int64
}

// A counting is the method that counts the tokens of a request.
type counting struct {
	target  func(base, model string) string
	message func(req *perigee.Request) (message, error)
	decode  func(answer []byte) (*perigee.TokenCount, error)
	repair  repairer // may be nil
}

// missing returns the error of a count. A server that has the API but not this method answers 404,
// too, without a word about the model.
func (c *counting) missing(err error, model string) error {
	e := perigee.AsError(err)
	of := strings.Contains(strings.ToLower(e.Message), "model") || strings.Contains(e.Message, model)
	if !errors.Is(err, errNoMethod) && (e.Status != http.StatusNotFound || of) {
		return err
	}
	none := *e
	none.Class, none.Cause, none.Raw = perigee.ClassUnimplemented, err, nil
	return &none
}

// A listing is the method that lists models.
type listing struct {
	target func(base, page string) string // the first page has no name
	decode func(answer []byte) (list []perigee.Model, next string, err error)

	// details is another address of the server with more about the models. It may be nil, and the list
	// is complete without it.
	details func(base string) string
	// complete adds to the models of the list what is found there.
	complete func(list []perigee.Model, answer []byte) error

	// describe adds to the models of the list what the server answers about each of them. It may be
	// nil.
	describe func(ctx context.Context, u *Upstream, list []perigee.Model) error
}

// An embedding is the method that turns texts into vectors.
type embedding struct {
	dialect perigee.Dialect // requests in it are sent with the client's own bytes; it may be empty
	raw     bool            // as in a Wire
	target  func(base string, req *perigee.EmbedRequest) string
	// own returns the client's own body, in pieces, for the routed model.
	own func(req *perigee.EmbedRequest) ([][]byte, error)
	// batch returns how many inputs of a model a request takes, and with how many tokens. If it is nil,
	// these are perigee.MaxEmbedBatch, with any number of tokens, which is 0.
	batch func(model string) (inputs int, tokens int64)
	// lacks returns an error if there are no embeddings of a model. It may be nil.
	lacks func(model string) error
	// encode writes the body for a batch of inputs with the same dimensions. The notes are on what the
	// method does not take.
	encode   func(model string, inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error)
	decode   func(answer []byte) (vectors [][]float32, tokens int64, err error)
	tokens   func(answer []byte) int64 // 0 if the answer does not report them
	estimate func(body []byte) int64   // the tokens of a request in the dialect
}

// A message is the body for the provider, the function that undoes the adaptation in its answer,
// and notes for the client.
type message struct {
	body   [][]byte        // in pieces
	memory *perigee.Buffer // of the body; nil if it is the client's, or not recycled
	undo   adapt.Undo
	notes  []perigee.Note

	// header replaces headers of the client that a method of its dialect gets. One without values is
	// left out.
	header http.Header

	// These are not made yet: changes of members of the body, and edits of a body in one piece.
	edits    []*change
	rewrites []rawjson.Edit

	// hides reports whether clients of the dialect do not get a chunk of the answer, because only
	// perigee has asked for it. If it is nil, they get all.
	hides func(chunk []byte) bool

	// history is how much reasoning it has in the messages of the model.
	history historyRule

	// anew is set if a repaired message was made from the prompt again, or from the client's bytes: the
	// notes of the refused one are not about it.
	anew bool

	// learns remembers what a repaired message assumes about the model, once the provider has accepted
	// the message. It may be nil.
	learns func()

	// repair is for a repaired message that the provider refuses, too. It may be nil.
	repair repairer
}

// repeats reports whether m is the same request as another message.
func (m *message) repeats(other *message) bool {
	return bytes.Equal(slices.Concat(m.body...), slices.Concat(other.body...)) && maps.EqualFunc(m.header, other.header, slices.Equal)
}

// promptOf returns the prompt of a request that is encoded anew. One in which nothing is asked is
// refused, as by the Gemini API.
func promptOf(req *perigee.Request) (*perigee.Prompt, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	if (prompt.System == nil || len(prompt.System.Parts) == 0) &&
		!slices.ContainsFunc(prompt.Contents, func(c perigee.Content) bool { return len(c.Parts) > 0 }) {
		what := "the conversation has no message"
		if req.Dialect == perigee.DialectGemini {
			what = "contents is missing or empty"
		}
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s", what).WithHint("send at least one message of the user's")
	}
	return prompt, nil
}

// newMessage returns a message with a body in pieces that were encoded for a request: the pieces
// are in buffer, or in the body of the client.
func newMessage(req *perigee.Request, pieces [][]byte, buffer []byte) message {
	clients := req.Buffer
	if len(pieces) == 1 || clients != nil && !clients.Retain() {
		clients = nil
	}
	return message{body: pieces, memory: perigee.NewBuffer(func() {
		wire.Recycle(buffer)
		clients.Release()
	})}
}

// release releases the body after it was sent, once.
func (m *message) release() {
	m.memory.Release()
	m.body, m.memory = nil, nil
}
