package perigee

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Dialect names the API that a body is written in.
type Dialect string

// The dialects of clients.
const (
	DialectGemini          Dialect = "gemini"
	DialectOpenAIChat      Dialect = "openai-chat"
	DialectOpenAIResponses Dialect = "openai-responses"
	DialectOpenAIImages    Dialect = "openai-images" // generation of images without a conversation
	DialectAnthropic       Dialect = "anthropic"
	DialectMCP             Dialect = "mcp"       // requests of MCP clients
	DialectCloudCode       Dialect = "cloudcode" // calls that a language server makes itself
)

// An Origin is where a request came from, with its body as received. Body is shared by all parts of
// the program that handle the request and must not be modified.
type Origin struct {
	ID      string // of the call: in x-perigee-call, the store and the logs
	Dialect Dialect
	Body    []byte
	Client  Client
	Strict  bool // refuse the request if something would be changed or dropped

	// Method, Path (with the query) and Header are from the HTTP request. They contain credentials,
	// and are empty for calls that are not HTTP requests.
	Method, Path string
	Header       http.Header

	Replay Replay

	// MayUse reports whether the client's key allows a model. If it is nil, all models are allowed.
	MayUse func(model string) bool

	// Log collects notes, attempts and the status of the call. If it is nil, they are discarded.
	Log *CallLog
	// Retries is the retry budget for empty or malformed answers. Routing sets it. Nil allows no
	// retries.
	Retries *RetryBudget
	// Free recycles the memory of Body. It is called after Request.Release, when nothing reads Body
	// any more. If it is nil, Body is left to the garbage collector.
	Free func()
	// Buffer is the memory of Body, for a RequestTap. It may be nil. Free releases it.
	Buffer *Buffer
	// Memory is the call's share of the memory budget; see Reserve. If it is nil, nothing is
	// counted.
	Memory MemoryLease
}

// Note adds notes to the log, which it creates if there is none.
func (o *Origin) Note(notes ...Note) {
	if o.Log == nil && len(notes) > 0 {
		o.Log = &CallLog{}
	}
	o.Log.Note(notes...)
}

// Allows reports whether a model may answer in place of the one that the client asked for.
func (o *Origin) Allows(model string) bool { return o.MayUse == nil || o.MayUse(model) }

// RefuseIfStrict returns an error for notes about changed or dropped fields if the request is
// strict. Notes about renamed, added or omitted fields are not refused: renamed tools get their own
// names back in the answer, and the other two do not change the meaning of the request.
func (o *Origin) RefuseIfStrict(notes []Note) error {
	if !o.Strict {
		return nil
	}
	var list []string
	for _, n := range notes {
		if n.Action != NoteRenamed && n.Action != NoteAdded && n.Action != NoteOmitted {
			list = append(list, n.String())
		}
	}
	if len(list) == 0 {
		return nil
	}
	return Errorf(ClassInvalid, "the request cannot be sent without changes: %s", strings.Join(list, "; ")).
		WithHint("remove that from the request, or set strict: false")
}

// A Client is the program that sent a request.
type Client struct {
	// Name is the program, as its User-Agent names it: "GeminiCLI", "claude-cli". It is recorded in
	// lower case.
	Name    string
	Version string
	// Key is the name of the key that it presented, never the key; empty if none is required.
	Key     string
	Session string // the client's name for its conversation, if it sends one
	// Agent and ParentAgent are the client's names for the agent that sent the request, and for the
	// agent that started that one, if it sends them.
	Agent, ParentAgent string
}

// A Request is one request to a model, in any dialect. The conversation is decoded by Prompt on
// first use: a request that is forwarded in its own dialect is never decoded.
type Request struct {
	Origin
	Model  string // as the client named it; routing replaces it with the upstream's name for it
	Stream bool   // the client wants a streamed answer

	// NamesModel is set if Body names the model as well, so that it cannot be forwarded unchanged
	// to another model.
	NamesModel bool

	// ThinksBeyondOutput is set if Body, in the Gemini dialect, has a thinking budget that is not
	// below its own limit of the whole answer.
	ThinksBeyondOutput bool

	// PlainItems is set if Body, in the Responses dialect, has no items of reasoning and no references
	// to items, which not every provider can read.
	PlainItems bool

	// Thinking is the thinking configuration from the model's name, which overrides Body; nil if
	// the name has none. Prompt includes it.
	Thinking *Thinking

	// Ready is called by Decoded, and returns the request with the data of the files on the web that
	// its prompt refers to, unless the provider reads addresses. If it is nil, they are passed on.
	Ready func(req *Request, readsURLs bool) (*Request, error)

	// Index is what the decoder knows of the structure of Body, a *rawjson.Document, so that an upstream
	// that edits Body need not read all of it again. It is nil if nothing is known.
	Index any

	// Opening returns the beginning of the conversation as Prompt has it, with the first turn of the
	// user whole, without decoding the rest. If it is nil, that is not possible.
	Opening func() *Prompt

	// Recall finds what is remembered of the reasoning in Body. It is nil if nothing is.
	Recall Recall

	// Pinned is the name of the upstream that stores the conversation which Body continues: no
	// other can answer. It is empty if any may.
	Pinned string

	// ReportStopSequence is set if the client wants to know which of its stop sequences ended the
	// answer.
	ReportStopSequence bool

	prompt    func() (*Prompt, error) // decodes once
	rewritten bool                    // the prompt differs from Body
	memory    *memory                 // shared by all copies
}

// NewRequest returns a request. Its Prompt calls decode at most once.
func NewRequest(origin Origin, model string, stream bool, decode func() (*Prompt, error)) *Request {
	m := &memory{}
	once := sync.OnceValues(func() (*Prompt, error) {
		defer m.decoded.Store(true)
		return decode()
	})
	r := &Request{Origin: origin, Model: model, Stream: stream, prompt: once, memory: m}
	r.memory.copies = append(r.memory.copies, r)
	r.memory.keepers.Store(1)
	return r
}

// copy returns a copy of r that is released with it.
func (r *Request) copy() *Request {
	c := *r
	if m := c.memory; m != nil {
		m.copies = append(m.copies, &c)
	}
	return &c
}

// Prompt returns the conversation. It is decoded once and shared by all copies of the request, also
// between goroutines, so callers treat it as read-only and build a new one to change it.
func (r *Request) Prompt() (*Prompt, error) {
	if r.prompt == nil {
		return nil, Errorf(ClassInternal, "request %s has no prompt", r.ID)
	}
	return r.prompt()
}

// Decoded returns the request for an upstream that sends the prompt instead of Body. Parts of Body
// that the prompt does not have are noted, or are an error if the request is strict. The files that the prompt refers to are
// fetched unless the provider reads addresses.
func (r *Request) Decoded(readsURLs bool) (*Request, error) {
	prompt, err := r.Prompt()
	if err != nil {
		return nil, err
	}
	if err := r.RefuseIfStrict(prompt.Lost); err != nil {
		return nil, err
	}
	r.Note(prompt.Lost...)
	if r.Ready == nil {
		return r, nil
	}
	return r.Ready(r, readsURLs)
}

// Lost returns notes on the parts of Body that the prompt does not have.
func (r *Request) Lost() []Note {
	if prompt, err := r.Prompt(); err == nil {
		return prompt.Lost
	}
	return nil
}

// WithModel returns a copy of r for another model that shares everything else.
func (r *Request) WithModel(model string) *Request {
	c := r.copy()
	c.Model = model
	return c
}

// WithPrompt returns a copy of r with another prompt. Body no longer matches it, and Verbatim
// returns false.
func (r *Request) WithPrompt(p *Prompt) *Request {
	c := r.copy()
	c.prompt = func() (*Prompt, error) { return p, nil }
	c.rewritten = true
	return c
}

// WithRecall returns a copy of r with another Recall.
func (r *Request) WithRecall(recall Recall) *Request {
	c := r.copy()
	c.Recall = recall
	return c
}

// A Recall finds what is remembered of the reasoning in a request, for an upstream that edits the
// client's own bytes.
type Recall interface {
	// Foreign returns which of the signatures of thinking were made by another provider than the
	// model's.
	Foreign(signatures []string) map[string]bool
	// Messages finds the reasoning of messages of the model, and sets their fields Known and Foreign.
	Messages(list []Recalled)
}

// A Recalled is a message of the model in the bytes of a request.
type Recalled struct {
	Thinking Text     // that the message has
	Sealed   []string // its signatures and sealed reasoning
	Calls    []string // the ids of its calls

	Known   []Part // the reasoning that this provider gave with the calls
	Foreign bool   // the message, or its thinking, is another provider's
}

// WithThinking returns a copy of r with the budget and level of want, which come from the model's
// name, in place of Body's. Whether thinking is included in the answer still depends on Body alone.
func (r *Request) WithThinking(want *Thinking) (*Request, error) {
	prompt, err := r.Prompt()
	if err != nil {
		return nil, err
	}
	e := prompt.Edit()
	thinking := Thinking{Budget: want.Budget, Level: want.Level}
	if said := prompt.Generation.Thinking; said != nil {
		thinking.Include, thinking.Extra = said.Include, said.Extra
	}
	e.Generation.Thinking = &thinking
	c := r.WithPrompt(e.Prompt)
	c.Thinking, c.rewritten = &thinking, r.rewritten
	return c, nil
}

// Verbatim reports whether Body is in dialect d and matches the prompt, so that it can be forwarded
// unchanged except for the model and Thinking.
func (r *Request) Verbatim(d Dialect) bool { return r.Dialect == d && !r.rewritten }

// A Prompt is the conversation, the tools that the model may call, and the generation parameters.
// It holds what the client asks for, whether or not the provider that gets it has a counterpart:
// package adapt makes a copy for the provider, with a note for each thing that is lost.
type Prompt struct {
	Dialect    Dialect // that it was decoded from; notes use its names. Empty counts as Gemini's
	System     *Content
	Contents   []Content
	Tools      []Tool
	ToolConfig *ToolConfig
	Generation Generation
	Cache      *CacheMark // for the whole prompt: the provider chooses where
	Extra      Fields     // other members: safetySettings, cachedContent, labels …
	Lost       []Note     // on what the client's request has and the prompt does not; see Request.Decoded
}

// The roles of a Content. The last two are for instructions inside the conversation.
const (
	RoleUser      = "user"
	RoleModel     = "model"
	RoleSystem    = "system"
	RoleDeveloper = "developer"
)

// A Content is one turn of a conversation.
type Content struct {
	Role  string
	Name  string // of the participant, if the client gives one
	Parts []Part
	Extra Fields
}

// Instructs reports whether the content is an instruction inside the conversation.
func (c *Content) Instructs() bool { return c.Role == RoleSystem || c.Role == RoleDeveloper }

// A PartKind determines which field of a Part holds its data.
type PartKind uint8

// The kinds of parts. PartRedacted is thinking that only its provider can read: Thought is set, and
// Signature is all of it. PartOther is any other part, such as executableCode: all its members are
// in Extra, so it can be passed on unchanged.
const (
	PartText PartKind = iota
	PartBlob
	PartFile
	PartCall
	PartResponse
	PartRedacted
	PartOther
)

// A Part is one piece of a turn: a text, an image, a tool call or a tool result.
type Part struct {
	Kind      PartKind
	Thought   bool   // the text is the model's thinking, not its answer
	Text      Text   // PartText
	Signature string // the provider's thought signature, opaque, which must be returned unchanged
	Blob      *Blob
	File      *File
	Call      *FunctionCall
	Response  *FunctionResponse
	Cache     *CacheMark
	Extra     Fields
}

// A CacheMark asks a provider to cache everything up to the part or the tool that has it. TTL is 5m
// or 1h, or empty for the provider's default.
type CacheMark struct{ TTL string }

// A Text is a text in one of two forms: plain, or with the escapes of JSON, as the client has sent
// it. Codecs read and write the second without unescaping and escaping it, which most texts of a
// request never need. Package rawjson converts them. Texts of different forms are different for ==.
type Text struct {
	text    string
	escaped bool
}

// Plain returns a text in its plain form.
func Plain(text string) Text { return Text{text: text} }

// Escaped returns a text that is the inside of a valid JSON string, without the quotes.
func Escaped(inside string) Text { return Text{inside, inside != ""} }

// Form returns the text in the form that it has.
func (t Text) Form() (text string, escaped bool) { return t.text, t.escaped }

// Empty reports whether the text is empty.
func (t Text) Empty() bool { return t.text == "" }

// Size returns the number of bytes of the text in the form that it has.
func (t Text) Size() int { return len(t.text) }

// A Blob is data inside the message. Data stays base64, because no upstream needs it decoded. In a
// prompt it may alias the body, as texts do.
type Blob struct {
	MIME   string
	Data   string
	Detail Detail
	Extra  Fields
}

// A File is data that the message refers to by URI.
type File struct {
	MIME   string
	URI    string
	Detail Detail
	Extra  Fields
}

// A Detail is the resolution in which the model is to see an image: low, high, original, auto, or
// empty.
type Detail string

// A FunctionCall is a tool call by the model. ID is empty if the provider gave none. Args is a JSON
// object, or nil if the call has no arguments.
type FunctionCall struct {
	ID    string
	Name  string
	Args  json.RawMessage
	Extra Fields
}

// A FunctionResponse is the result of a tool call. Response is a JSON object. If the result is a
// single text, it may be in Output instead, as the JSON string that the client sent, and the object
// is {"output": text}; most of an agent's input is such texts, which need not be copied this way.
// Media are the images and documents of the result.
type FunctionResponse struct {
	ID       string
	Name     string
	Response json.RawMessage
	Output   json.RawMessage
	Media    []Part
	Extra    Fields
}

// Object returns the result as a JSON object, or nil if there is none.
func (r *FunctionResponse) Object() json.RawMessage {
	if r.Output == nil {
		return r.Response
	}
	return append(append(append(make([]byte, 0, len(r.Output)+len(`{"output":}`)), `{"output":`...), r.Output...), '}')
}

// A Tool is a function of the client, or a tool that is built in at the provider. Exactly one of
// Function and Builtin is set.
type Tool struct {
	Function *Function
	Builtin  string          // one of the names below, or the provider's name
	Config   json.RawMessage // of the built-in tool, in the form of the Gemini API
	Cache    *CacheMark
}

// The built-in tools that several providers have, under different names.
const (
	BuiltinSearch = "web_search"
	BuiltinFetch  = "web_fetch"
	BuiltinCode   = "code_execution"
)

// A Function declares a tool of the client. Parameters is a schema. JSONSchema is set if it is a
// full JSON Schema (parametersJsonSchema) rather than the provider's subset (parameters). Strict is
// whether arguments must match the schema; nil leaves that to the provider.
type Function struct {
	Name        string
	Description string
	Parameters  json.RawMessage
	JSONSchema  bool
	Strict      *bool
	Custom      *CustomInput // of a tool that takes a text; Parameters is a schema with the member input
	Extra       Fields
}

// A CustomInput is the grammar of a text that a tool takes: lark or regex, and its definition. Both
// are empty if any text will do.
type CustomInput struct{ Syntax, Definition string }

// The modes of a ToolConfig.
const (
	ToolModeAuto      = "AUTO"
	ToolModeAny       = "ANY"
	ToolModeNone      = "NONE"
	ToolModeValidated = "VALIDATED"
)

// A ToolConfig determines whether the model may, must or must not call functions, and which.
type ToolConfig struct {
	Mode    string
	Allowed []string
	Calling Fields // the other members of functionCallingConfig
	Extra   Fields
}

// Generation holds the generation parameters. A nil pointer is a parameter that the client did not
// set.
type Generation struct {
	Temperature      *float64
	TopP             *float64
	TopK             *float64
	MaxOutputTokens  *int64
	Candidates       *int64
	Seed             *int64
	PresencePenalty  *float64
	FrequencyPenalty *float64
	LogitBias        json.RawMessage // an object with biases by token id; nil if there are none
	Stop             []string
	ParallelCalls    *bool  // whether an answer may have more than one tool call
	Verbosity        string // low, medium or high
	ServiceTier      string
	Logprobs         *int64 // how many alternatives to report with each token; 0 reports the token alone
	ResponseMIME     string
	ResponseSchema   json.RawMessage // the provider's schema subset
	ResponseJSON     json.RawMessage // a full JSON Schema
	ResponseFormat   ResponseFormat
	Modalities       []string
	Thinking         *Thinking
	Extra            Fields
}

// A ResponseFormat describes the schema of the answer to a provider that wants more than the schema.
type ResponseFormat struct {
	Name        string
	Description string
	Strict      *bool
}

// Thinking is how much the model may think and whether the answer includes it. Level is one of
// Levels, or a word of the Gemini API. A budget is in tokens; 0 is no thinking, and a negative one
// leaves it to the model.
type Thinking struct {
	Include *bool
	Budget  *int64
	Level   string
	Extra   Fields
}

// Levels is the scale of thinking. Each model has some of these levels.
var Levels = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Fields are the members of a JSON object that have no field of their own, in their original order.
// They are passed on unchanged.
type Fields []Field

// A Field is one member of Fields. Value is its unchanged JSON.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Get returns the value of the field called name, or nil.
func (f Fields) Get(name string) json.RawMessage {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value
		}
	}
	return nil
}

// An EmbedRequest asks for the vectors of one or more texts.
type EmbedRequest struct {
	Origin
	Model string
	Batch bool // the client used the batch method
	Count int  // of inputs, where the client's dialect allows more than MaxEmbedBatch; otherwise 0

	// Decode reads the inputs from Body, for a provider that gets them in another dialect. The notes
	// are on what Body has and they do not.
	Decode func() ([]EmbedInput, []Note, error)
}

// MaxEmbedBatch is the maximum number of inputs in one request to the provider.
const MaxEmbedBatch = 100

// Requests returns the number of requests to a provider of another dialect.
func (r *EmbedRequest) Requests() int { return max(1, (r.Count+MaxEmbedBatch-1)/MaxEmbedBatch) }

// Inputs returns what is to be embedded. Parts of Body that they do not have are noted, or are an
// error if the request is strict.
func (r *EmbedRequest) Inputs() ([]EmbedInput, error) {
	if r.Decode == nil {
		return nil, Errorf(ClassInternal, "request %s has no inputs", r.ID)
	}
	inputs, lost, err := r.Decode()
	if err != nil {
		return nil, err
	}
	return inputs, r.Lose(lost)
}

// Lose notes what an upstream cannot send, once. It is an error if the request is strict.
func (r *EmbedRequest) Lose(notes []Note) error {
	if err := r.RefuseIfStrict(notes); err != nil {
		return err
	}
	for _, n := range notes {
		r.Log.NoteOnce(n)
	}
	return nil
}

// EstimateEmbedding estimates the tokens of inputs.
func EstimateEmbedding(inputs []EmbedInput) (tokens int64) {
	for i := range inputs {
		prompt := Prompt{Contents: []Content{inputs[i].Content}}
		tokens += prompt.EstimateTokens()
	}
	return tokens
}

// An EmbedInput is one thing to embed.
type EmbedInput struct {
	Content    Content
	TaskType   string
	Title      string
	Dimensions int64 // 0 means the model's default
	Extra      Fields
}

// WithModel returns a copy of r for another model that shares everything else.
func (r *EmbedRequest) WithModel(model string) *EmbedRequest {
	c := *r
	c.Model = model
	return &c
}

// memory is the state of the body and the prompt that copies of a request share. Only the goroutine
// that runs the request's stream uses it, except for the atomic fields.
type memory struct {
	copies   []*Request
	hooks    []func()
	released bool
	keepers  atomic.Int32 // the request itself is one until it is released
	decoded  atomic.Bool
}

// Release drops Body and Prompt of r and of all its copies, after the functions given to OnRelease
// have run. Routing calls it when the first content of a streamed answer has been passed on: from
// then on there are no retries, and an answer may take minutes. Code that needs parts of the
// request during the answer copies them in OnRelease.
func (r *Request) Release() {
	m := r.memory
	if m == nil || m.released {
		return
	}
	m.released = true
	for _, hook := range m.hooks {
		hook()
	}
	for _, c := range m.copies {
		c.Body, c.prompt, c.Index, c.Opening = nil, nil, nil, nil
	}
	m.copies, m.hooks = nil, nil
	r.done()
}

// OnRelease registers f to be called when the request is released, before its memory is reused. f
// is not called if the stream ends first.
func (r *Request) OnRelease(f func()) {
	if m := r.memory; m != nil && !m.released {
		m.hooks = append(m.hooks, f)
	}
}

// Keep prevents the memory of Body from being reused until done is called, also after Release. It
// is for callers that retain parts of Body or of the prompt, which may alias it. At the end of the
// stream the memory is reused in any case.
func (r *Request) Keep() (done func()) {
	m := r.memory
	if m == nil {
		return func() {}
	}
	m.keepers.Add(1)
	return r.done
}

// done releases one keeper. It may be called in any goroutine.
func (r *Request) done() {
	if r.memory.keepers.Add(-1) == 0 && r.Free != nil {
		r.Free()
	}
}

// ErrNoMemory is the cause of an Error about limits.memory: the memory that a call needs is not
// free. A retry with another upstream or account does not help.
var ErrNoMemory = errors.New("limits.memory is used up")

// A MemoryLease is the part of the memory budget that one call has reserved. All methods may be
// called concurrently. At the end of the call, the rest of the lease is released.
type MemoryLease interface {
	// Grow reserves more bytes. The error is an *Error of class capacity with the cause
	// ErrNoMemory, and nothing is reserved then.
	Grow(bytes int64) error
	// Shrink releases bytes that were reserved with Grow.
	Shrink(bytes int64)
}

// Reserve reserves bytes of the memory budget for answers that the call buffers or collects. It
// always succeeds for a request without a lease.
func (o *Origin) Reserve(bytes int64) error {
	if o == nil || o.Memory == nil || bytes <= 0 {
		return nil
	}
	return o.Memory.Grow(bytes)
}

// Unreserve releases bytes before the call is over.
func (o *Origin) Unreserve(bytes int64) {
	if o != nil && o.Memory != nil && bytes > 0 {
		o.Memory.Shrink(bytes)
	}
}

// tallyStep is the number of bytes that a Tally counts before it reserves them.
const tallyStep = 64 << 10

// A Tally reserves memory for data that grows in small steps, such as the text of an answer. The
// zero value is ready to use.
type Tally struct{ pending, reserved int64 }

// Add counts bytes, and reserves all pending ones once there are 64 KiB.
func (t *Tally) Add(o *Origin, bytes int64) error {
	if t.pending += bytes; t.pending < tallyStep {
		return nil
	}
	if err := o.Reserve(t.pending); err != nil {
		return err
	}
	t.reserved += t.pending
	t.pending = 0
	return nil
}

// Drop releases the reserved bytes and resets the Tally.
func (t *Tally) Drop(o *Origin) {
	o.Unreserve(t.reserved)
	*t = Tally{}
}

// ErrNoAnswer is the cause of an Error about an answer that was generated and is billed, but is
// empty or malformed.
var ErrNoAnswer = errors.New("the answer is empty or malformed")

// ErrNotAsked is in the chain of an Error of an upstream that did not ask its provider about the
// model: none of its accounts can be used.
var ErrNotAsked = errors.New("the provider was not asked")

// A RetryBudget limits how often one call is retried because an answer was empty, malformed or cut
// off: once in total, shared by the router and all upstreams. The zero value has that retry left,
// and nil has none. All methods may be called concurrently.
type RetryBudget struct{ taken atomic.Bool }

// Left reports whether the retry is left.
func (b *RetryBudget) Left() bool { return b != nil && !b.taken.Load() }

// Take uses the retry and reports whether it was left.
func (b *RetryBudget) Take() bool { return b != nil && b.taken.CompareAndSwap(false, true) }

// Pause waits for d and reports whether ctx was still active at the end.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
