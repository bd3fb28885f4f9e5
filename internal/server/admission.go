package server

import (
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/mount"
)

// Every call for a model passes these checks in this order:
//
//  1. admit, before the body is read: the key's budgets of the day, concurrency and rpm. A call
//     that passes counts as one request, even if its body or its model is invalid.
//  2. takeBody reads the body and then takes a slot of limits.concurrency. A call that is still
//     uploading holds only a slot of its key, so slow uploads of one key do not block other keys.
//  3. allow, as soon as the name of the model is known: before the body is read if the path has
//     it.
//  4. check, once the body is decoded: strict, and the rpm of a call that makes several requests
//     to the provider.

// places are the concurrency slots that a call holds while it runs. The zero value holds none.
type places struct {
	key    *clientkey.Guarded // has one place less
	server *Server            // counts the call for limits.concurrency
}

// release releases all slots.
func (p *places) release() {
	if p.key != nil {
		p.key.Release()
	}
	if p.server != nil {
		p.server.calls.Add(-1)
	}
	*p = places{}
}

// handOver transfers the slots to the result, for a part of the call that continues after the
// handler has returned.
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
	if err := k.CheckBudget(c.r.Context(), c.opts.Stored, c.opts.Spent, c.opts.Now()); err != nil {
		return err
	}
	if err := k.Acquire(); err != nil {
		return err
	}
	c.places.key = k
	return k.TakeRequest(c.r.Context(), &c.sharedLimit, c.opts.Now())
}

// takeBody reads the body of a call that was admitted, and takes a place of limits.concurrency for
// it. Without a free place the body is not read at all.
func (c *call) takeBody() ([]byte, error) {
	if limit := c.state.Concurrency; limit > 0 && c.calls.Load() >= int64(limit) {
		return nil, tooManyCalls(limit)
	}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	return body, c.acquire()
}

// acquire counts the call for limits.concurrency.
func (c *call) acquire() error {
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
		WithHint("try again, or raise limits.concurrency")
	e.Retry = time.Second
	return e
}

// allow refuses models that the key may not use.
func (c *call) allow(model string) error {
	if err := clientkey.CheckModel(model); err != nil {
		c.model = mount.Shorten(model)
		return err
	}
	c.model = model
	k := c.key
	if k == nil {
		return nil
	}
	if !slices.ContainsFunc(c.opts.Names(c.r.Context(), model), k.Allows) {
		return perigee.Errorf(perigee.ClassForbidden, "key %s is not allowed to use model %q", k.Name, mount.Shorten(model)).
			WithHint("allowed: %s", strings.Join(k.Models, ", "))
	}
	return nil
}
