package perigee

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is a value that must not be printed, logged, stored in clear or sent back. Every way of
// turning it into text gives "[redacted]"; the one way to the value is Reveal, which is easy to
// search for.
type Secret struct{ value string }

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value itself, for the header or the cipher that needs it.
func (s Secret) Reveal() string { return s.value }

// IsZero says whether there is nothing to hide.
func (s Secret) IsZero() bool { return s.value == "" }

// Equal compares in constant time, also for values of different length. Nothing equals an empty
// secret.
func (s Secret) Equal(value string) bool {
	a, b := sha256.Sum256([]byte(s.value)), sha256.Sum256([]byte(value))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && s.value != ""
}

func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from looking inside.
func (s Secret) GoString() string { return "perigee.Secret{" + s.String() + "}" }

// Format keeps every verb from looking inside.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps slog from looking inside.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps JSON, YAML and everything else that asks from looking inside.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
