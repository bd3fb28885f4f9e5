package perigee

import "time"

// A Model is something that can be asked. Zero limits are unknown limits.
type Model struct {
	ID          string
	AliasOf     string // the model that answers under this name; empty: the one of this ID
	Upstream    string
	DisplayName string
	Description string
	Version     string
	Created     time.Time // when it was released; zero: unknown
	Context     int64     // tokens that fit in
	Output      int64     // tokens that can come out
	Thinking    bool
	Methods     []string // generateContent, countTokens, embedContent …
	Extra       Fields   // what else the provider says of it
}
