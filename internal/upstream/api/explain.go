package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/wire"
)

// nextSteps are the hints for errors of the provider, by class.
var nextSteps = map[perigee.Class]string{
	perigee.ClassForbidden:   "check the permissions of this upstream's API key",
	perigee.ClassExhausted:   "wait until the quota resets, or add another key or upstream",
	perigee.ClassRateLimited: "wait a little, or add another key or upstream",
	perigee.ClassCapacity:    "try again, or use another model",
	perigee.ClassUnavailable: "try again; if the error persists, the provider has a problem",
}

// noKeys is the reason of a refusal where no key is configured.
const noKeys = "the provider requires an API key, and the upstream has no keys"

// explain completes an error with upstream, model and hint, and removes keys from it. It
// classifies errors of the network.
func (u *Upstream) explain(ctx context.Context, model string, err error) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		c := *e
		c.Upstream, c.Model = u.opts.Name, model
		c.Message = u.keys.cleanText(c.Message)
		if c.Raw != nil {
			raw := *c.Raw
			raw.Body = u.keys.clean(raw.Body)
			c.Raw = &raw
		}
		if fault, ok := c.Cause.(*perigee.Fault); ok && fault.Param != "" {
			c.Cause = &perigee.Fault{Param: u.keys.cleanText(fault.Param), Code: fault.Code}
		}
		c.Details = slices.Clone(c.Details)
		for i, detail := range c.Details {
			c.Details[i] = u.keys.clean(detail)
		}
		if c.Class == perigee.ClassUnauthenticated && c.Hint == "" {
			refused := "the provider refused the " + u.credential()
			c.Hint = "check the keys of this upstream in the configuration"
			switch {
			case u.access != nil:
				c.Hint = "run gcloud auth application-default login on the machine that runs perigee"
			case u.keyless:
				refused = noKeys
				c.Hint = "add keys to this upstream in the configuration, such as keys: [env:API_KEY]"
			}
			c.Message = fmt.Sprintf("upstream %s: %s: %s", u.opts.Name, refused, c.Message)
		}
		if c.Hint == "" && u.hint != nil {
			c.Hint = u.hint(&c, model)
		}
		if c.Hint == "" && lacksCredit(&c) {
			c.Hint = "add credit at the provider, or add another key or upstream"
		}
		if c.Hint == "" {
			c.Hint = nextSteps[c.Class]
		}
		return &c
	}
	e := wire.TransportError(ctx, u.opts.Name, "url", err)
	switch cause := context.Cause(ctx); {
	case cause == errCountTime:
		e.Hint = "try again"
	case cause == wire.ErrFirstByte && u.opts.OwnFirstByte:
		e.Hint = "try again, or raise first_byte of this upstream"
		e.Message = fmt.Sprintf("upstream %s timed out: no answer within its first_byte", u.opts.Name)
	case cause == wire.ErrIdle && u.opts.OwnIdle:
		e.Hint = "try again, or raise idle of this upstream"
		e.Message = fmt.Sprintf("upstream %s timed out: no sign of life within its idle time", u.opts.Name)
	}
	if u.hint != nil {
		if next := u.hint(e, model); next != "" {
			e.Hint, e.PublicHint = next, next
		}
	}
	e.Upstream, e.Model = u.opts.Name, model
	return e
}

// lacksCredit reports whether a call was refused because the provider has not been paid, which does
// not change with time. Some providers use status 402 for quotas, too, and send the time of the reset.
func lacksCredit(e *perigee.Error) bool {
	return e.Class == perigee.ClassExhausted && e.Retry == 0 &&
		(e.Status == http.StatusPaymentRequired || strings.Contains(strings.ToLower(e.Message), "credit balance"))
}

func (u *Upstream) malformed(model string, err error) error {
	return &perigee.Error{Class: perigee.ClassUnavailable, Upstream: u.opts.Name, Model: model,
		Message: u.keys.cleanText(fmt.Sprintf("upstream %s sent an answer that cannot be read: %v", u.opts.Name, err)), Cause: err}
}
