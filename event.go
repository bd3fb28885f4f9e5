package perigee

import "encoding/json"

// An EventKind says what happened and which fields of the Event have a meaning.
type EventKind uint8

// The kinds of events. A stream is one EventStart, then content, and at the end EventFinish for
// each candidate; usage may come anywhere, and the last one seen is the true one.
const (
	// EventFlush says only that what More promised did not come.
	EventFlush EventKind = iota
	// EventStart is the first sign of life: Upstream, Model and ResponseID as far as they are
	// known.
	EventStart
	// EventFrame is the provider's own chunk, in the client's dialect. The events of the chunk
	// follow it, all of them. An encoder of that dialect writes the frame and skips these events;
	// everything else reads the events and skips the frame, so that content counts once.
	EventFrame
	EventText      // Text, and Signature when the provider signed this text
	EventThinking  // Text, and Signature when it came along
	EventSignature // Signature alone: it belongs to the block before it
	EventCall      // Call, complete; and Signature
	EventBlob      // Blob: an image or a sound; Thought when it belongs to the thinking
	EventPart      // Raw: a part that has no kind of its own, as JSON
	EventGrounding // Grounding; Raw: the same in the provider's own words, for clients that speak its dialect
	EventLogprobs  // Logprobs; Raw: the same in the provider's own words
	EventUsage     // Usage so far: replaces what was said before, never adds to it
	EventFinish    // Finish
)

// An Event is one thing that happened in an answer.
type Event struct {
	Kind      EventKind
	Candidate int // which of several answers; 0 unless more were asked for
	Thought   bool
	More      bool // another event follows without waiting: a writer may collect several before it flushes

	Upstream   string // EventStart: the name of the upstream that answers
	Account    string // EventStart: the account that it answers with, if it has several; for the record, not for clients
	Model      string // EventStart: the model that really answers
	ResponseID string // EventStart: the provider's id of the answer

	Text      string
	Signature string
	Call      *FunctionCall
	Blob      *Blob
	Usage     *Usage
	Finish    *Finish
	Grounding *Grounding
	Logprobs  *Logprobs
	Raw       json.RawMessage
	Frame     []byte // valid until the next event
}

// Size is about how many bytes of content the event carries.
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

// Usage counts tokens. Input includes Cached, Output includes Thinking, so that sums need no rules.
type Usage struct {
	Input    int64
	Cached   int64
	Output   int64
	Thinking int64
}

// Total is what the call cost altogether.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Plus is what both cost together.
func (u Usage) Plus(more Usage) Usage {
	return Usage{Input: u.Input + more.Input, Cached: u.Cached + more.Cached,
		Output: u.Output + more.Output, Thinking: u.Thinking + more.Thinking}
}

// Finish says why an answer ended.
type Finish struct {
	Kind    FinishKind
	Reason  string // the provider's word: STOP, MAX_TOKENS, SAFETY …
	Message string // what the provider says about it
	Trouble string // FinishMalformed: what went wrong, in our words
	Stop    string // the stop sequence that was met, where the client wanted to know it
	Blocked bool   // the prompt was refused, and Reason says why: there is no answer
}

// A FinishKind is the reason why an answer ended, independent of the provider's name for it. The
// upstream sets it; each dialect has its own names for the kinds.
type FinishKind uint8

// The finish kinds. An unknown reason counts as FinishDone.
const (
	FinishDone        FinishKind = iota // there was nothing more to say
	FinishLength                        // there was no room for more
	FinishFiltered                      // the rest, or all, was withheld for what it is about
	FinishMalformed                     // the model or the provider went astray: asking again may help
	FinishUnexplained                   // the provider gives no reason
)

// Grounding is what an answer rests on: what was searched for, what was found, and which stretches
// of the text rest on what.
type Grounding struct {
	Queries  []string
	Sources  []Source
	Supports []Support
}

// A Source is a place on the web, or in what the client has given.
type Source struct{ URL, Title string }

// A Support is a stretch of the answer and the indices of the Sources that it rests on. Start and
// End count bytes, often within a part of the answer only; Text is what the stretch says. None of
// them is checked: they are what the provider says.
type Support struct {
	Start, End int
	Text       string
	Sources    []int64
}

// Logprobs say how likely the tokens of a stretch of the answer were. Top has, for each of Chosen,
// what might have stood there instead; it may be shorter.
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
	Estimate bool // not by the model's own tokenizer: counted here by rule of thumb, or by the provider as another model would
	Raw      []byte
}

// Embeddings are the vectors for an EmbedRequest, one for each input in order. Raw is the
// provider's own answer when it was given in the client's dialect; then Vectors may be empty.
type Embeddings struct {
	Upstream string
	Model    string
	Vectors  [][]float32
	Usage    Usage
	Estimate bool // at least a part of Usage was estimated, because the provider does not name it
	Raw      []byte
}
