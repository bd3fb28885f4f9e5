package perigee

import (
	"context"
	"time"
)

// A Signature is a provider's seal over its own thinking, kept under a key by which it is found again when a
// client has lost it. The key says nothing of what was sealed.
type Signature struct {
	Key     string
	Value   string // the seal, opaque, or sealed thinking with its text; empty where only its kind is to be known
	Seal    string // the kind of models that take it
	Expires time.Time
}

// A SignatureStore keeps signatures until they expire. SaveSignatures writes each under its key, replacing what
// was there; either all of them are kept or none. FindSignatures returns those of the keys that it has.
type SignatureStore interface {
	SaveSignatures(ctx context.Context, signatures []Signature) error
	FindSignatures(ctx context.Context, keys []string) ([]Signature, error)
}
