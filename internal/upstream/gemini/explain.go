package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/upstream/wire"
)

// nextSteps are for errors of the provider's, which seldom say what to do.
var nextSteps = map[perigee.Class]string{
	perigee.ClassForbidden:   "check what the API key of this upstream may do",
	perigee.ClassExhausted:   "wait for the quota to come back, or add another key or upstream",
	perigee.ClassRateLimited: "wait a little, or add another key or upstream",
	perigee.ClassCapacity:    "try again, or ask another model",
	perigee.ClassUnavailable: "try again; if it lasts, the provider is in trouble",
}

// explain says what went wrong in terms of this upstream: an error of the provider's gets its address, an
// error of the network its class.
func (u *Upstream) explain(ctx context.Context, model string, err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		c := *e
		c.Upstream, c.Model = u.opts.Name, model
		c.Message = u.keys.redact(c.Message)
		c.Details = slices.Clone(c.Details)
		for i, detail := range c.Details {
			c.Details[i] = json.RawMessage(u.keys.redact(string(detail)))
		}
		if c.Class == perigee.ClassUnauthenticated && c.Next == "" {
			c.Message = fmt.Sprintf("upstream %s: the provider refused the API key: %s", u.opts.Name, c.Message)
			c.Next = "check the keys of this upstream in the configuration"
		}
		if c.Next == "" {
			c.Next = nextSteps[c.Class]
		}
		return &c
	}
	e := wire.Trouble(ctx, u.opts.Name, "url", err)
	e.Upstream, e.Model = u.opts.Name, model
	return e
}

func (u *Upstream) garbled(model string, err error) error {
	return &perigee.Error{Class: perigee.ClassUnavailable, Upstream: u.opts.Name, Model: model,
		Message: u.keys.redact(fmt.Sprintf("upstream %s sent an answer that cannot be read: %v", u.opts.Name, err)), Cause: err}
}
