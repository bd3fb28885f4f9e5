// Package roundtrip holds the dialects against each other. It has tests only: one conversation is
// written in every dialect and must be the same one after decoding, and one answer is encoded in
// every dialect and must read the same to its clients. What a single dialect promises is tested in
// its own package. No package imports this one.
package roundtrip
