package httpapi

import (
	"encoding/json"
	"net/http"
)

// An Unready is one reason why calls cannot be answered.
type Unready struct {
	Reason string // for everybody: GET /ready needs no key
	Detail string // for the owner, with names; empty: there is none
}

// ready answers GET /ready: 200 while calls can be answered, else 503 with the reasons.
func (c *call) ready() error {
	answer := struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons,omitempty"`
	}{Status: "ready"}
	var reasons []Unready
	if c.opts.Ready != nil {
		reasons = c.opts.Ready()
	}
	for _, r := range reasons {
		if c.trusted && r.Detail != "" {
			r.Reason += ": " + r.Detail
		}
		answer.Reasons = append(answer.Reasons, r.Reason)
	}
	status := http.StatusOK
	if len(reasons) > 0 {
		answer.Status, status = "unready", http.StatusServiceUnavailable
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.writeJSON(status, raw)
	return nil
}
