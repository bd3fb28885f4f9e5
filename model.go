package perigee

import "time"

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

// An Account is a sign-in that an upstream can use.
type Account struct {
	Email     string
	Upstream  string
	Enabled   bool
	ProjectID string
	State     string
	Cooldowns []Cooldown
}

// A Cooldown is a time during which an account is not asked for a family of models.
type Cooldown struct {
	Family string
	Pool   string
	Until  time.Time
	Reason string
}

// A Quota is what an account has left of a model: a fraction from 0 to 1, and when it is whole again.
type Quota struct {
	Account   string
	Model     string
	Remaining float64
	ResetsAt  time.Time
}
