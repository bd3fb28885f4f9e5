package perigee

import (
	"context"
	"encoding/json"
	"time"
)

// A StoreReport is the contents of the store and their size.
type StoreReport struct {
	Engine   string     `json:"engine"`     // sqlite or postgres
	Database string     `json:"database"`   // the file or the address, without a password
	Bytes    int64      `json:"bytes"`      // of the database with its log
	Log      int64      `json:"log_bytes"`  // of its write-ahead log, where that is a file
	Free     int64      `json:"free_bytes"` // unused space in the database; compacting returns it
	Rows     []StoreRow `json:"rows"`
}

// A StoreRow is one kind of stored object. A zero limit means no limit.
type StoreRow struct {
	What     string `json:"what"`
	Count    int64  `json:"count"`
	Bytes    int64  `json:"bytes"`               // on disk, indexes included
	Counted  int64  `json:"counted_bytes"`       // the bytes that count towards MaxBytes
	MaxCount int64  `json:"max_count,omitempty"` // beyond it, the oldest are deleted
	MaxBytes int64  `json:"max_bytes,omitempty"`
	Keep     int64  `json:"keep_seconds,omitempty"` // the maximum age
}

// A StoreCompacted is the result of compacting a database.
type StoreCompacted struct {
	Database string `json:"database"`
	Before   int64  `json:"before_bytes"`
	After    int64  `json:"after_bytes"`
	Freed    int64  `json:"freed_bytes"`
	Note     string `json:"note,omitempty"` // further advice
}

// A StoredResponse is an answer that its client can read again, or continue from without sending
// the conversation again. It is stored in the format of the Responses API.
type StoredResponse struct {
	ID      string
	Key     string // the name of the client's key; other keys cannot read the response
	Created time.Time
	Expires time.Time

	Input    json.RawMessage // an array of all input items, including earlier turns
	Output   json.RawMessage // an array of the output items, with thought signatures
	Response json.RawMessage // the answer that the client got
}

// A ResponseStore keeps responses until they expire. Another key's response, an expired one and an
// unknown one are all ClassNotFound.
type ResponseStore interface {
	// SaveResponse stores r under its ID and replaces an earlier response with that ID.
	SaveResponse(ctx context.Context, r *StoredResponse) error
	Response(ctx context.Context, key, id string) (*StoredResponse, error)
	// ResponseSize returns the approximate size in bytes of the response, so that memory can be
	// reserved before it is read.
	ResponseSize(ctx context.Context, key, id string) (int64, error)
	DeleteResponse(ctx context.Context, key, id string) error
}

// A Signature is a thought signature of a provider, stored under a key by which it is found again
// if a client has lost it. The key reveals nothing about the signed content.
type Signature struct {
	Key     string
	Value   string // opaque, or signed thinking with its text; empty if only the kind is stored
	Kind    string // of the models that accept it
	Expires time.Time
}

// A SignatureStore keeps signatures until they expire. SaveSignatures writes each signature under
// its key and replaces an earlier one; either all are written or none. FindSignatures returns the
// signatures of the keys that are stored.
type SignatureStore interface {
	SaveSignatures(ctx context.Context, signatures []Signature) error
	FindSignatures(ctx context.Context, keys []string) ([]Signature, error)
}
