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

// The dialects that clients speak.
const (
	DialectGemini          Dialect = "gemini"
	DialectOpenAIChat      Dialect = "openai-chat"
	DialectOpenAIResponses Dialect = "openai-responses"
	DialectAnthropic       Dialect = "anthropic"
	DialectMCP             Dialect = "mcp"       // asks of MCP clients
	DialectCloudCode       Dialect = "cloudcode" // calls that a language server makes itself
)

// An Origin is where a request came from, with its body as received. Body is shared by all parts of
// the program that handle the request and must not be modified.
type Origin struct {
	ID      string // of the call: in x-perigee-call, the store and the logs
	Dialect Dialect
	Body    []byte
	Client  Client
	Strict  bool // the owner wants an error wherever something would be changed or dropped

	// Method, Path and Header are those of the HTTP request, Path with its query. They have
	// credentials in them, and are empty for calls that are no HTTP requests.
	Method, Path string
	Header       http.Header

	Replay Replay

	// MayUse says which models the client's key allows; nil: all.
	MayUse func(model string) bool

	// Log collects notes, attempts and the status of the call. Nil: they are discarded.
	Log *CallLog
	// Retries is what is left of retrying for answers that are of no use; routing sets it. Nil:
	// there are no retries.
	Retries *RetryBudget
	// Free takes the memory of Body back after Request.Release, when nothing reads it any more.
	// Nil: the garbage collector does.
	Free func()
	// Memory is what the call has reserved of the memory budget; see Reserve. Nil: nothing is
	// counted.
	Memory MemoryLease
}

// Note adds notes to the log, which it makes if there is none.
func (o *Origin) Note(notes ...Note) {
	if o.Log == nil && len(notes) > 0 {
		o.Log = &CallLog{}
	}
	o.Log.Note(notes...)
}

// Allows says whether a model may answer in place of the one that the client asked for.
func (o *Origin) Allows(model string) bool { return o.MayUse == nil || o.MayUse(model) }

// RefuseIfStrict returns an error for notes about changed or dropped fields if the request is
// strict. Renamed tools get their own name back in the answer, and what is added or omitted takes
// nothing from what the client asks for, so they are not refused.
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
	Name    string // the program, as its User-Agent names it: "GeminiCLI", "claude-cli"; recorded in lower case
	Version string
	Key     string // the name of the key that it presented, never the key; empty when none is required
	Session string // what the client calls its conversation, if it says so
}

// A Request is one request to a model, in any dialect. The conversation is decoded by Prompt on
// first use: a request that is forwarded in its own dialect is never decoded.
type Request struct {
	Origin
	Model  string // as the client named it; routing replaces it with the upstream's name for it
	Stream bool   // the client wants the answer piece by piece

	// NamesModel says that Body names the model as well, so that it cannot go on untouched to
	// another one.
	NamesModel bool

	// Thinking is what the model's name says about thinking, instead of what Body says; nil:
	// nothing. Prompt has it already.
	Thinking *Thinking

	// ReportStopSequence says that the client wants to know which of its stop sequences ended the
	// answer.
	ReportStopSequence bool

	prompt    *lazyPrompt
	rewritten bool    // the prompt is not what Body says
	memory    *memory // shared by all copies
}

type lazyPrompt struct {
	once   sync.Once
	decode func() (*Prompt, error)
	value  *Prompt
	err    error
}

// NewRequest returns a request whose Prompt is decoded by calling decode at most once.
func NewRequest(origin Origin, model string, stream bool, decode func() (*Prompt, error)) *Request {
	r := &Request{Origin: origin, Model: model, Stream: stream, prompt: &lazyPrompt{decode: decode}, memory: &memory{}}
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
	p := r.prompt
	if p == nil {
		return nil, Errorf(ClassInternal, "request %s has no prompt", r.ID)
	}
	p.once.Do(func() { p.value, p.err = p.decode() })
	return p.value, p.err
}

// WithModel returns a copy of r that asks another model and shares everything else.
func (r *Request) WithModel(model string) *Request {
	c := r.copy()
	c.Model = model
	return c
}

// WithPrompt returns a copy of r that asks something else. Its bytes no longer say what is asked.
func (r *Request) WithPrompt(p *Prompt) *Request {
	c := r.copy()
	c.prompt = &lazyPrompt{decode: func() (*Prompt, error) { return p, nil }}
	c.rewritten = true
	return c
}

// WithThinking returns a copy of r that asks for as much thinking as the model's name says,
// whatever Body says about it. Whether the client wants to see it is the body's alone.
func (r *Request) WithThinking(wish *Thinking) (*Request, error) {
	prompt, err := r.Prompt()
	if err != nil {
		return nil, err
	}
	e := prompt.Edit()
	thinking := Thinking{Budget: wish.Budget, Level: wish.Level}
	if said := prompt.Generation.Thinking; said != nil {
		thinking.Include, thinking.Extra = said.Include, said.Extra
	}
	e.Generation.Thinking = &thinking
	c := r.WithPrompt(e.Prompt)
	c.Thinking, c.rewritten = &thinking, r.rewritten
	return c, nil
}

// Verbatim says whether Body, as it came, is what is asked, in the given dialect: then it can go on
// as it is, but for the model and for Thinking.
func (r *Request) Verbatim(d Dialect) bool { return r.Dialect == d && !r.rewritten }

// A Prompt is what the model is asked: the conversation, the tools it may call, how it should
// generate.
type Prompt struct {
	System     *Content
	Contents   []Content
	Tools      []Tool
	ToolConfig *ToolConfig
	Generation Generation
	Extra      Fields // members without a name of their own here: safetySettings, cachedContent, labels …
}

// The roles of a Content.
const (
	RoleUser  = "user"
	RoleModel = "model"
)

// A Content is one turn of a conversation.
type Content struct {
	Role  string
	Parts []Part
	Extra Fields
}

// A PartKind says which field of a Part holds its data.
type PartKind uint8

// The kinds of parts. PartOther is a part that perigee has no word for (executableCode, and
// whatever the provider thinks of next): all its members are in Extra, so it can be passed on
// whole.
const (
	PartText PartKind = iota
	PartBlob
	PartFile
	PartCall
	PartResponse
	PartOther
)

// A Part is one piece of a turn: a text, an image, a tool call, a tool's answer.
type Part struct {
	Kind      PartKind
	Thought   bool   // the text is the model's thinking, not its answer
	Text      string // PartText
	Signature string // the provider's seal over its own thinking, opaque, to be sent back as it came
	Blob      *Blob
	File      *File
	Call      *FunctionCall
	Response  *FunctionResponse
	Extra     Fields
}

// A Blob is data inside the message. Data stays base64 as it came: no upstream wants it decoded.
type Blob struct {
	MIME  string
	Data  string
	Extra Fields
}

// A File is data that the message only points at.
type File struct {
	MIME  string
	URI   string
	Extra Fields
}

// A FunctionCall is a model's wish to call a tool. ID is empty where the provider gave none; Args
// is a JSON object, or nil when the call came without arguments.
type FunctionCall struct {
	ID    string
	Name  string
	Args  json.RawMessage
	Extra Fields
}

// A FunctionResponse is a tool's answer. Response is a JSON object. Most tools answer with one
// text: then it may stand in Output instead, as the JSON string that the client sent, and the
// object is {"output": text}. Texts of tools are most of what an agent sends, and this way they are
// not copied. Media are the pictures and documents that the tool gave with it.
type FunctionResponse struct {
	ID       string
	Name     string
	Response json.RawMessage
	Output   json.RawMessage
	Media    []Part
	Extra    Fields
}

// Object returns the answer as a JSON object; nil: there is none.
func (r *FunctionResponse) Object() json.RawMessage {
	if r.Output == nil {
		return r.Response
	}
	return append(append(append(make([]byte, 0, len(r.Output)+len(`{"output":}`)), `{"output":`...), r.Output...), '}')
}

// A Tool is one thing that the model may use: a function of the client's, or one that the provider
// has built in. Exactly one of Function and Builtin is set.
type Tool struct {
	Function *Function
	Builtin  string          // the provider's name for it: googleSearch, urlContext, codeExecution
	Config   json.RawMessage // of the built-in tool
}

// A Function declares a tool of the client's. Parameters is a schema; JSONSchema says that it is a
// full JSON Schema (parametersJsonSchema) and not the provider's own subset (parameters).
type Function struct {
	Name        string
	Description string
	Parameters  json.RawMessage
	JSONSchema  bool
	Extra       Fields
}

// The modes of a ToolConfig.
const (
	ToolModeAuto      = "AUTO"
	ToolModeAny       = "ANY"
	ToolModeNone      = "NONE"
	ToolModeValidated = "VALIDATED"
)

// A ToolConfig says whether the model may, must or must not call functions, and which.
type ToolConfig struct {
	Mode    string
	Allowed []string
	Calling Fields // what else stood beside mode: members of functionCallingConfig
	Extra   Fields
}

// Generation holds the knobs. A nil pointer is a knob that the client did not touch.
type Generation struct {
	Temperature      *float64
	TopP             *float64
	TopK             *float64
	MaxOutputTokens  *int64
	Candidates       *int64
	Seed             *int64
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Stop             []string
	ResponseMIME     string
	ResponseSchema   json.RawMessage // the provider's schema subset
	ResponseJSON     json.RawMessage // a full JSON Schema
	Modalities       []string
	Thinking         *Thinking
	Extra            Fields
}

// Thinking says how much the model may think and whether the client wants to see it.
type Thinking struct {
	Include *bool
	Budget  *int64
	Level   string
	Extra   Fields
}

// Fields are members of a JSON object that perigee has no name for, in the order they came. They
// travel along so that nothing is lost on the way.
type Fields []Field

// A Field is one such member; Value is its JSON, untouched.
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
	Model  string
	Batch  bool         // the client used the call for many
	Inputs []EmbedInput // nil in the Gemini dialect, where Body goes on as it is
}

// MaxEmbedBatch is how many inputs the provider takes in one request.
const MaxEmbedBatch = 100

// Requests is how many requests the provider gets for r.
func (r *EmbedRequest) Requests() int { return max(1, (len(r.Inputs)+MaxEmbedBatch-1)/MaxEmbedBatch) }

// EstimateTokens is about how many tokens the inputs have. The least that an input has is one.
func (r *EmbedRequest) EstimateTokens() (tokens int64) {
	for i := range r.Inputs {
		prompt := Prompt{Contents: []Content{r.Inputs[i].Content}}
		tokens += prompt.EstimateTokens()
	}
	return tokens
}

// An EmbedInput is one thing to embed.
type EmbedInput struct {
	Content    Content
	TaskType   string
	Title      string
	Dimensions int64 // 0: the model's own
	Extra      Fields
}

// WithModel returns a copy of r that asks another model and shares everything else.
func (r *EmbedRequest) WithModel(model string) *EmbedRequest {
	c := *r
	c.Model = model
	return &c
}

// memory is what the copies of a request know of the bytes and the prompt that they share. Only the
// goroutine that runs the request's stream uses it, except for keepers.
type memory struct {
	copies   []*Request
	hooks    []func()
	released bool
	keepers  atomic.Int32 // the request itself is one until it is released
}

// Release drops Body and Prompt of r and of all its copies, after the functions given to OnRelease
// have run. Routing calls it when the first content of a streamed answer has been passed on: from
// then on nothing is asked again, and an answer may go on for minutes. A stage that needs more of
// the request during the answer than it has in its own variables takes it in OnRelease.
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
		c.Body, c.prompt = nil, nil
	}
	m.copies, m.hooks = nil, nil
	r.done()
}

// OnRelease has f called when the request is released, before its memory is used for something
// else. It is not called for a stream that ends before.
func (r *Request) OnRelease(f func()) {
	if m := r.memory; m != nil && !m.released {
		m.hooks = append(m.hooks, f)
	}
}

// Keep keeps the memory of Body from other uses until done is called, also after Release: it is for
// callers that hold on to parts of Body or of the prompt, which may alias it. At the end of the
// stream it is taken back in any case.
func (r *Request) Keep() (done func()) {
	m := r.memory
	if m == nil {
		return func() {}
	}
	m.keepers.Add(1)
	return r.done
}

// done ends the need of one keeper, in whichever goroutine it noticed.
func (r *Request) done() {
	if r.memory.keepers.Add(-1) == 0 && r.Free != nil {
		r.Free()
	}
}

// ErrNoMemory is the cause of an Error about limits.memory: what a call needs does not fit beside
// what the open calls hold. No other upstream or account can change that.
var ErrNoMemory = errors.New("limits.memory is used up")

// A MemoryLease is the part of the memory budget that one call has reserved. All methods may be
// called concurrently. What the lease has at the end of the call is released then.
type MemoryLease interface {
	// Grow reserves more bytes. The error is an *Error of class capacity with the cause
	// ErrNoMemory, and nothing is reserved then.
	Grow(bytes int64) error
	// Shrink releases bytes that were reserved with Grow.
	Shrink(bytes int64)
}

// Reserve reserves bytes of the memory budget for what the call keeps beside its request: answers
// that are read in one piece or collected. A request without a lease always gets them.
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

// tallyStep is how many bytes a Tally lets gather before it reserves them.
const tallyStep = 64 << 10

// A Tally reserves memory for what grows in small steps, such as the text of an answer. Its zero
// value is ready.
type Tally struct{ pending, reserved int64 }

// Add counts bytes, and reserves them with those before once there are 64 KiB.
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

// Drop releases what was counted.
func (t *Tally) Drop(o *Origin) {
	o.Unreserve(t.reserved)
	*t = Tally{}
}

// ErrNoAnswer is the cause of an Error about an answer that was generated, and has to be paid for,
// but is empty or malformed.
var ErrNoAnswer = errors.New("the answer is empty or malformed")

// ErrNotAsked is in the chain of an Error of an upstream that did not ask its provider about the
// model: none of its accounts can be used.
var ErrNotAsked = errors.New("the provider was not asked")

// A RetryBudget is how often one call may ask again because an answer was empty, malformed or cut:
// once in all, shared by the router and every upstream that it asks. The zero value has that retry
// left, and nil has none. All methods may be called concurrently.
type RetryBudget struct{ taken atomic.Bool }

// Left says whether the retry has not been taken yet.
func (b *RetryBudget) Left() bool { return b != nil && !b.taken.Load() }

// Take takes the retry, and says whether it was left.
func (b *RetryBudget) Take() bool { return b != nil && b.taken.CompareAndSwap(false, true) }

// Pause waits before a retry, and says whether the context lasted as long.
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
