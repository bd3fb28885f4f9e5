package perigee

import "time"

// An Attempt is one try at a call: the upstream and account, why they were chosen, and how it ended.
type Attempt struct {
	Upstream string        `json:"upstream"`
	Account  string        `json:"account,omitempty"`
	Endpoint string        `json:"endpoint,omitempty"` // of the provider; empty: nothing was sent
	Why      string        `json:"why,omitempty"`      // why this one was chosen
	Class    Class         `json:"class,omitempty"`    // of what went wrong; empty: it answered
	Error    string        `json:"error,omitempty"`
	Took     time.Duration `json:"took_ns"`
}
