package rules

import "encoding/json"

// Parsed has the parts of an accepted request that the model needs to answer it. Raw values alias
// the body.
type Parsed struct {
	System        string // texts of the system instruction, joined by newlines
	Contents      []Content
	Functions     []Function
	BuiltIns      []string // names of other tools in camelCase: googleSearch, urlContext, codeExecution, …
	ToolMode      string   // AUTO, ANY, NONE, VALIDATED; empty when not given
	AllowedNames  []string // functions the model may call when ToolMode is ANY or VALIDATED
	Config        Config
	SessionID     string
	CachedContent string
	TextBytes     int // everything a tokenizer would see: texts, arguments, results, declarations
}

// Content is one entry of the conversation. An absent role reads as "user".
type Content struct {
	Role  string
	Parts []Part
}

// Part holds exactly one of Text (with HasText), Blob, File, Call, Response or Other.
type Part struct {
	Text      string
	HasText   bool
	Thought   bool
	Signature string
	Blob      *Blob
	File      *File
	Call      *Call
	Response  *Response
	Other     string // executableCode, codeExecutionResult, toolCall, toolResponse
}

// Blob is inline data. Size is the size of the decoded bytes.
type Blob struct {
	MIME string
	Size int
	Data string // as sent: base64
}

// File is data by reference.
type File struct{ MIME, URI string }

// Call is a function call of the model. Args is nil when the call has none.
type Call struct {
	ID, Name string
	Args     json.RawMessage
}

// Response is the result of a call.
type Response struct {
	ID, Name string
	Response json.RawMessage
	Parts    []Part
}

// Function is a declared function. Parameters is its schema as sent, nil when it takes none;
// JSONSchema means that it came as parametersJsonSchema.
type Function struct {
	Name, Description string
	Parameters        json.RawMessage
	JSONSchema        bool
}

// Config is the generation config. Zero values mean "not given"; pointers distinguish that from
// zero.
type Config struct {
	MaxTokens      int64
	Stop           []string
	CandidateCount int64
	Temperature    *float64
	TopP           *float64
	TopK           *float64
	Seed           *int64
	ResponseMIME   string
	ResponseSchema json.RawMessage // the provider's schema subset, or
	ResponseJSON   json.RawMessage // a full JSON Schema
	Modalities     []string        // upper case
	Thinking       Thinking
	AspectRatio    string
	ImageSize      string
}

// Thinking is the thinking config.
type Thinking struct {
	Budget  *int64 // nil if not given
	Level   string // lower case; empty if not given
	Include bool
}
