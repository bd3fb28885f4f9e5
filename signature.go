package perigee

import (
	"context"
	"time"
)

// A Signature is a thought signature of a provider, kept under a key by which it is found again when a client has lost it. The
// key says nothing of what was signed.
type Signature struct {
	Key     string
	Value   string // opaque, or signed thinking with its text; empty where only the kind is to be known
	Kind    string // of the models that accept it
	Expires time.Time
}

// A SignatureStore keeps signatures until they expire. SaveSignatures writes each under its key, replacing what
// was there; either all of them are kept or none. FindSignatures returns those of the keys that it has.
type SignatureStore interface {
	SaveSignatures(ctx context.Context, signatures []Signature) error
	FindSignatures(ctx context.Context, keys []string) ([]Signature, error)
}
