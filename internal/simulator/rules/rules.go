// Package rules is the checking half of the simulator: given the body of a content request it
// decides whether the real provider would refuse it, and with which message.
//
// It is pure: no network, no clock, no accounts. Checks that depend on the caller (sign-in,
// project, quota, faults) belong to package simulator, which is the only caller: it runs
// [CheckEnvelope], then its own checks, then [Check], and lets its model answer from the [Parsed]
// request.
//
// The rules are a table ([Table]); each entry names the section of the interface notes it comes
// from and has one example that passes and one that fails.
package rules

// A Family groups the models that share a set of rules.
type Family string

const (
	Claude    Family = "claude"
	Gemini    Family = "gemini"   // 3 and newer: the first function call of a model content needs its signature
	Gemini2   Family = "gemini-2" // 2.5 and older: no signature is demanded
	GPTOSS    Family = "gpt-oss"
	Image     Family = "image"
	Embedding Family = "embedding"
	Foreign   Family = "foreign" // of another provider, which this package has no rules for
)

// A Surface is one of the ways to reach the models.
type Surface int

const (
	V1Internal Surface = iota // the private gateway: the request is inside an envelope
	V1Beta                    // the official API: the body is the request
	OtherAPI                  // an API of another provider; this package does not check its requests
	Vertex                    // the official API at Vertex AI, with other members
)

// A Method is the kind of a call to the model. Unary and streamed generation have the same rules.
type Method int

const (
	Generate Method = iota
	Count
)

// A Model has the properties of a model that the rules need.
type Model struct {
	ID        string
	Family    Family
	MaxOutput int64 // 0 means no limit
	Context   int64 // input window in tokens; 0 means no limit

	// legal thinking budgets; with MaxBudget 0 the model ignores budgets
	MinBudget, MaxBudget int64
	ZeroBudget           bool     // budget 0, thinking off, is legal
	DynamicBudget        bool     // budget -1, the model decides, is legal
	Levels               []string // legal thinking levels, lower case
	Images               bool     // images are legal in the input
}

// Input is one request to check.
type Input struct {
	Surface  Surface
	Method   Method
	Model    Model
	Body     []byte
	Switches Switches

	// Verify reports whether a signature was issued by this simulator, and for which family. If it
	// is nil, no signature is accepted.
	Verify func(sig string) (Family, bool)

	// EstimateTokens turns bytes of text into tokens. Nil counts four bytes a token.
	EstimateTokens func(text int) int64
}

// official reports whether the body is the request, as at the official API and at Vertex AI.
func (in Input) official() bool { return in.Surface == V1Beta || in.Surface == Vertex }

// A Refusal is an error of the provider, ready to be put into {"error": {code, message, status,
// details}}.
type Refusal struct {
	Rule    string // name of the entry of Table that refused
	Status  int    // HTTP status
	Code    string // INVALID_ARGUMENT and the like
	Message string
	Details []any // values that marshal to google.rpc details
}

func (r *Refusal) Error() string { return r.Message }
