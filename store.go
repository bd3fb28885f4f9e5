package perigee

import (
	"context"
	"encoding/json"
	"time"
)

// A StoreReport is what perigee keeps, and what that takes.
type StoreReport struct {
	Engine   string     `json:"engine"`     // sqlite or postgres
	Database string     `json:"database"`   // the file or the address, without a password
	Bytes    int64      `json:"bytes"`      // of the database with its log
	Log      int64      `json:"log_bytes"`  // of its write-ahead log, where that is a file
	Free     int64      `json:"free_bytes"` // in the database, for what comes next; StoreCompact returns it
	Rows     []StoreRow `json:"rows"`
}

// A StoreRow is one kind of thing that is kept. A zero limit is none.
type StoreRow struct {
	What     string `json:"what"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`               // on disk, indexes included
	Counted  int64  `json:"counted_bytes"`       // what counts for MaxBytes
	MaxCount int64  `json:"max_count,omitempty"` // the oldest go beyond that
	MaxBytes int64  `json:"max_bytes,omitempty"`
	Keep     int64  `json:"keep_seconds,omitempty"` // how long one is kept at most
}

// A StoreCompacted says what compacting a database has brought.
type StoreCompacted struct {
	Database string `json:"database"`
	Before   int64  `json:"before_bytes"`
	After    int64  `json:"after_bytes"`
	Freed    int64  `json:"freed_bytes"`
	Note     string `json:"note,omitempty"` // what else could be done
}

// A StoredResponse is an answer that its client may come back to: to read it again, or to go on
// from it without sending the conversation anew. It is kept in the words of the Responses API.
type StoredResponse struct {
	ID      string
	Key     string // the name of the client's key; other keys cannot read the response
	Created time.Time
	Expires time.Time

	Input    json.RawMessage // an array: everything the model was given, earlier turns included
	Output   json.RawMessage // an array: what it answered, with the provider's thought signatures, for the next turn
	Response json.RawMessage // the answer as the client got it
}

// A ResponseStore keeps responses until they expire. Another key's response, an expired one and an
// unknown one are all ClassNotFound.
type ResponseStore interface {
	// SaveResponse keeps r under its ID, replacing what was kept there.
	SaveResponse(ctx context.Context, r *StoredResponse) error
	Response(ctx context.Context, key, id string) (*StoredResponse, error)
	// ResponseSize is about how many bytes Response would return, so that memory can be reserved
	// before it is read.
	ResponseSize(ctx context.Context, key, id string) (int64, error)
	DeleteResponse(ctx context.Context, key, id string) error
}

// A Signature is a thought signature of a provider, kept under a key by which it is found again
// when a client has lost it. The key says nothing of what was signed.
type Signature struct {
	Key     string
	Value   string // opaque, or signed thinking with its text; empty where only the kind is to be known
	Kind    string // of the models that accept it
	Expires time.Time
}

// A SignatureStore keeps signatures until they expire. SaveSignatures writes each under its key,
// replacing what was there; either all of them are kept or none. FindSignatures returns those of
// the keys that it has.
type SignatureStore interface {
	SaveSignatures(ctx context.Context, signatures []Signature) error
	FindSignatures(ctx context.Context, keys []string) ([]Signature, error)
}
