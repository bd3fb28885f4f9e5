package perigee

import "time"

// A Model is a model of an upstream. Zero limits are unknown.
type Model struct {
	ID          string
	AliasOf     string // the model that answers; empty if it is the model of this ID
	Upstream    string
	DisplayName string
	Description string
	Version     string
	Created     time.Time // when it was released; zero if unknown
	Context     int64     // the limit of input tokens
	Output      int64     // the limit of output tokens
	Thinking    bool
	Vision      *bool    // whether it takes images; nil if unknown
	Tools       *bool    // whether it calls functions; nil if unknown
	Methods     []string // generateContent, countTokens, embedContent …
	Extra       Fields   // other members of the provider's description

	// ThinkingTypes and Efforts are the ways in which the Messages API sets thinking for this
	// model: adaptive, enabled, disabled; low, medium, high, xhigh, max. They are nil if unknown.
	ThinkingTypes, Efforts []string
}
