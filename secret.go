package perigee

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is a value that must not be printed, logged, stored unencrypted or sent back. Every
// conversion to text gives "[redacted]". Only Reveal returns the value.
type Secret struct{ value string }

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal returns the value itself, for the header or the cipher that needs it.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == "" }

// Equal compares in constant time, also for values of different length. An empty secret equals no
// value.
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

// GoString hides the value from %#v.
func (s Secret) GoString() string { return "perigee.Secret{" + s.String() + "}" }

// Format hides the value from all verbs.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from JSON, YAML and other encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
