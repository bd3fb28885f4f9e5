package perigee

import (
	"encoding/json"
	"net/http"
)

// An EventKind is the kind of an Event and determines which of its fields are set.
type EventKind uint8

// The kinds of events. A stream is one EventStart, then content, and at the end EventFinish for
// each candidate; EventUsage may come anywhere, and the last one counts.
const (
	// EventFlush has no content. It follows an event with More if no other event comes.
	EventFlush EventKind = iota
	// EventStart is the first event. It has Upstream, Model and ResponseID if they are
	// known.
	EventStart
	// EventFrame is the provider's own chunk, in Dialect, which is the client's. The events of the
	// chunk follow it, all of them. An encoder of that dialect writes the frame and skips these
	// events; all other readers use the events and skip the frame, so that content counts once.
	//
	// A frame of a stream is the data of a server-sent event in the Gemini dialect. In all other
	// dialects it is all bytes of an event, or of a comment, up to the end of its blank line.
	EventFrame
	EventText      // Text, and Signature if the provider signed this text
	EventThinking  // Text, and Signature if there is one
	EventSignature // Signature only, which belongs to the block before it
	EventRedacted  // Signature: thinking that only its provider can read
	// EventCallPart is a piece of a call that the model is still writing. Call has its ID and name,
	// and Text is a piece of its arguments, which are an object; it may be empty. No other content
	// comes between the pieces of a call, and its EventCall follows them. An encoder that streams
	// arguments writes the pieces and skips the arguments of the EventCall; all other readers skip
	// the pieces.
	EventCallPart
	EventCall      // Call, complete; and Signature
	EventBlob      // Blob: an image or audio; Thought if it belongs to the thinking
	EventPart      // Raw: a part without a kind of its own, as JSON
	EventGrounding // Grounding; Raw is the provider's JSON for clients of its dialect
	EventLogprobs  // Logprobs; Raw is the provider's JSON
	EventUsage     // Usage so far; it replaces earlier values and is not added to them
	// EventFinish has Finish. Its Signature is the reasoning of the whole answer in the form in which
	// the provider takes it back, if that is not the form of the events; clients do not get it.
	EventFinish
)

// An Event is one piece of an answer.
type Event struct {
	Kind      EventKind
	Candidate int // the index of the answer; 0 unless several were requested
	Thought   bool
	More      bool // another event follows at once, so a writer need not flush yet
	Bare      bool // EventFrame: none of its events is content, so it may be held back

	Upstream   string // EventStart: the name of the upstream that answers
	Account    string // EventStart: the account that it uses; not sent to clients
	Model      string // EventStart: the model that answers
	ResponseID string // EventStart: the provider's id of the answer
	// Header is for EventStart: headers of the provider's answer that a client of its dialect gets.
	Header http.Header

	Text      string
	Signature string
	Call      *FunctionCall
	Blob      *Blob
	Usage     *Usage
	Finish    *Finish
	Grounding *Grounding
	Logprobs  *Logprobs
	Raw       json.RawMessage
	Dialect   Dialect // EventFrame; EventStart: of the frames that follow, or empty if there are none
	Frame     []byte  // valid until the next event
}

// Size returns approximately how many bytes of content the event has.
func (e *Event) Size() int64 {
	n := len(e.Text) + len(e.Signature) + len(e.Raw) + len(e.Frame)
	if e.Call != nil {
		n += len(e.Call.ID) + len(e.Call.Name) + len(e.Call.Args)
	}
	if e.Blob != nil {
		n += len(e.Blob.MIME) + len(e.Blob.Data)
	}
	return int64(n)
}

// Usage counts tokens. Input includes Cached and Written, Output includes Thinking, so Input +
// Output is the total.
type Usage struct {
	Input       int64
	Cached      int64 // read from the provider's cache
	Written     int64 // written to the provider's cache, where that is charged
	WrittenHour int64 // the part of Written that the provider keeps for an hour
	Output      int64
	Thinking    int64
	Charged     Cost // that the provider reports with its answer; unknown if it reports none
}

// Bound corrects counts that no answer has, such as negative ones or a trillion tokens and more: they
// would spoil every sum that includes them.
func (u *Usage) Bound() {
	for _, n := range []*int64{&u.Input, &u.Cached, &u.Written, &u.WrittenHour, &u.Output, &u.Thinking} {
		*n = min(max(*n, 0), 1<<40)
	}
}

// Total returns the sum of input and output tokens.
func (u Usage) Total() int64 { return u.Input + u.Output }

// HitRate returns the fraction of the input that was read from the provider's cache; 0 without input.
func (u Usage) HitRate() float64 {
	if u.Input <= 0 {
		return 0
	}
	return min(float64(u.Cached)/float64(u.Input), 1)
}

// Plus returns the sum of both.
func (u Usage) Plus(more Usage) Usage {
	return Usage{Input: u.Input + more.Input, Cached: u.Cached + more.Cached,
		Written: u.Written + more.Written, WrittenHour: u.WrittenHour + more.WrittenHour,
		Output: u.Output + more.Output, Thinking: u.Thinking + more.Thinking, Charged: u.Charged.Plus(more.Charged)}
}

// Finish is why an answer ended.
type Finish struct {
	Kind    FinishKind
	Reason  string  // the provider's finish reason: STOP, MAX_TOKENS, SAFETY …
	Dialect Dialect // of Reason; empty counts as Gemini's
	Message string  // the provider's explanation
	Error   string  // FinishMalformed: the error, as perigee describes it
	Stop    string  // the stop sequence that ended the answer, if the client asked for it
	Blocked bool    // the prompt was refused for Reason, and there is no answer
}

// Word returns Reason if it is a word of a dialect, and otherwise the word of that dialect for the
// kind.
func (f *Finish) Word(d Dialect, words map[FinishKind]string) string {
	if f.Dialect == d || f.Dialect == "" && d == DialectGemini {
		return f.Reason
	}
	return words[f.Kind]
}

// A FinishKind is the reason why an answer ended, independent of the provider's name for it. The
// upstream sets it; each dialect has its own names for the kinds.
type FinishKind uint8

// The finish kinds. An unknown reason counts as FinishDone.
const (
	FinishDone        FinishKind = iota // the answer is complete
	FinishLength                        // the token limit was reached
	FinishFiltered                      // withheld because of its content, whole or in part
	FinishMalformed                     // the model or the provider failed; a retry may help
	FinishUnexplained                   // the provider gives no reason
)

// Grounding holds the searches behind an answer, their results, and which passages of the text each
// result supports.
type Grounding struct {
	Queries  []string
	Sources  []Source
	Supports []Support
}

// A Source is a web page, or a document that the client has sent.
type Source struct{ URL, Title string }

// A Support is a passage of the answer and the indices of the Sources that support it. Start and
// End count bytes, often within one part of the answer; Text is the passage. The provider's values
// are not checked.
type Support struct {
	Start, End int
	Text       string
	Sources    []int64
}

// Logprobs are the log probabilities of tokens of the answer. Top has the alternatives for each
// token of Chosen; it may be shorter.
type Logprobs struct {
	Chosen []Token
	Top    [][]Token
}

// A Token is a piece of text and the logarithm of its probability.
type Token struct {
	Text    string
	Logprob float64
}

// A TokenCount is the size of a request. Raw is the provider's own answer when it was given in the
// client's dialect, else nil.
type TokenCount struct {
	Upstream string
	Model    string
	Total    int64
	Cached   int64
	// Estimate is set if Total was estimated, or counted with the tokenizer of another model.
	Estimate bool
	Raw      []byte
	Header   http.Header // with Raw: headers of the provider's answer that the client gets
}

// Embeddings are the vectors for an EmbedRequest, one for each input in order. Raw is the
// provider's own answer when it was given in the client's dialect; then Vectors may be empty.
type Embeddings struct {
	Upstream string
	Model    string
	Vectors  [][]float32
	Usage    Usage
	Estimate bool // at least a part of Usage was estimated, because the provider does not report it
	Raw      []byte
	Header   http.Header // with Raw, as in a TokenCount
}
