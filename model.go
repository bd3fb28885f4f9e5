package perigee

// A Model is something that can be asked. Zero limits are unknown limits.
type Model struct {
	ID          string
	Upstream    string
	DisplayName string
	Description string
	Version     string
	Context     int64 // tokens that fit in
	Output      int64 // tokens that can come out
	Thinking    bool
	Methods     []string // generateContent, countTokens, embedContent …
	Extra       Fields   // what else the provider says of it
}
