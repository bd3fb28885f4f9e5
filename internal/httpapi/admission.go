package httpapi

import (
	"cmp"
	"strings"
	"time"

	"perigee"
)

// Every call for a model passes these checks in this order:
//
//  1. admit, before the body is read: the key's tokens_per_day, concurrency and rpm. A call that gets this far counts as one request,
//     whatever is wrong with its body or its model.
//  2. receive reads the body and then takes a place of limits.concurrency. A call that is still uploading holds a place of its key
//     only, so slow uploads of one key do not keep other keys out.
//  3. allow, as soon as the name of the model is known, and takeMore for a call that makes several requests of the provider.

// places are what a call holds while it runs. Its zero value holds nothing.
type places struct {
	key    *guardedKey // has one place less
	server *Server     // counts the call for limits.concurrency
}

// release gives back what is held.
func (p *places) release() {
	if p.key != nil {
		p.key.leave()
	}
	if p.server != nil {
		p.server.calls.Add(-1)
	}
	*p = places{}
}

// handOver returns what is held, for a part of the call that goes on after the handler has returned.
func (p *places) handOver() places {
	held := *p
	*p = places{}
	return held
}

// admit applies the limits of the key that do not depend on the body.
func (c *call) admit() error {
	k := c.key
	if k == nil {
		return nil
	}
	if err := k.checkTokens(c.r.Context(), c.opts.Stored, c.opts.Spent, c.opts.Now()); err != nil {
		return err
	}
	if err := k.takePlace(); err != nil {
		return err
	}
	c.places.key = k
	return c.takeRequests(k, 1)
}

// receive admits a call and returns its body.
func (c *call) receive() ([]byte, error) {
	if err := c.admit(); err != nil {
		return nil, err
	}
	return c.takeBody()
}

// takeBody reads the body of a call that was admitted, and takes a place of limits.concurrency for it. Without a free place the
// body is not read at all.
func (c *call) takeBody() ([]byte, error) {
	if limit := c.state.Concurrency; limit > 0 && c.calls.Load() >= int64(limit) {
		return nil, tooManyCalls(limit)
	}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	return body, c.takePlace()
}

// takePlace takes a place of limits.concurrency.
func (c *call) takePlace() error {
	limit := c.state.Concurrency
	if c.calls.Add(1) > int64(limit) && limit > 0 {
		c.calls.Add(-1)
		return tooManyCalls(limit)
	}
	c.places.server = c.Server
	return nil
}

func tooManyCalls(limit int) error {
	e := perigee.Errorf(perigee.ClassRateLimited, "perigee is answering %d calls already", limit).
		WithNext("try again, or raise limits.concurrency")
	e.Retry = time.Second
	return e
}

// allow refuses models that the key may not use.
func (c *call) allow(model string) error {
	if err := checkModel(model); err != nil {
		c.model = shorten(model)
		return err
	}
	c.model = model
	k := c.key
	if k == nil {
		return nil
	}
	// A pattern may mean the name that the client uses, or the model behind it.
	if behind := c.opts.Model(model); !k.mayAsk(cmp.Or(model, behind)) && !k.mayAsk(behind) {
		return perigee.Errorf(perigee.ClassForbidden, "key %s is not allowed to use model %q", k.Name, shorten(model)).
			WithNext("allowed: %s", strings.Join(k.Models, ", "))
	}
	return nil
}

// letIn is allow for a call that makes so many requests of the provider. It also accounts for the parameters of the URL, and
// objects to what would be lost where the owner is strict.
func (c *call) letIn(origin *perigee.Origin, model string, requests int) error {
	origin.Notes = append(origin.Notes, queryNotes(c.r.URL)...)
	if err := c.allow(model); err != nil {
		return err
	}
	if err := origin.Object(origin.Notes); err != nil {
		return err
	}
	return c.takeMore(requests)
}
