package trace

import (
	"net/http"

	"perigee"
)

// The files of a trace directory. Files that do not apply are absent. The second and later tries
// have a number in the names of their files; see UpstreamRequest and UpstreamResponse.
const (
	MetaName           = "meta.json"
	NotesName          = "notes.json"
	ErrorName          = "error.json"
	ClientRequestName  = "client_request.json"
	ClientResponseName = "client_response.txt"
	EventsName         = "events.jsonl"
)

// A Meta is the content of meta.json. It is written when the call begins, with the outcome "open",
// and replaced when it ends.
type Meta struct {
	perigee.TraceRow
	Operation string      `json:"operation"`
	Stream    bool        `json:"stream"`
	Method    string      `json:"method"`
	Path      string      `json:"path"`    // with its query, without credentials
	Headers   http.Header `json:"headers"` // without credentials
	Tries     []Try       `json:"tries"`
	// Truncated has the files that end before the body does, and why.
	Truncated map[string]string `json:"truncated,omitempty"`
}

// A Try is one request to a provider, or one attempt at an upstream that sends none. Times are
// milliseconds since the call began.
type Try struct {
	Upstream string `json:"upstream"`
	Account  string `json:"account"`
	// Endpoint is the scheme and the host of the provider. It is empty if nothing was sent.
	Endpoint string `json:"endpoint"`
	Status   int    `json:"status"` // of the provider's answer; 0 if there was none
	// Class is the class of the error. It is empty if the answer was sent to the client, at least
	// in part.
	Class       perigee.Class `json:"class"`
	StartedMS   float64       `json:"started_ms"`
	FirstByteMS float64       `json:"first_byte_ms"` // 0 if nothing was received
	Why         string        `json:"why,omitempty"` // this upstream and account were chosen
	Error       string        `json:"error,omitempty"`
	Request     string        `json:"request,omitempty"`  // the file with the request
	Response    string        `json:"response,omitempty"` // the file with the answer
}

// The reasons in Meta.Truncated.
const (
	TruncatedSize = "size" // the file reached its maximum size
	TruncatedLate = "late" // the disk was too slow: more bytes waited than the queue can hold
	TruncatedDisk = "disk" // the disk refused a write
)

// A Failure is the content of error.json: how a call that did not succeed ended.
type Failure struct {
	Status  int             `json:"status"` // the client's HTTP status
	Class   perigee.Class   `json:"class"`
	Outcome perigee.Outcome `json:"outcome"`
	Message string          `json:"message,omitempty"` // not without bodies: it may quote one
}
