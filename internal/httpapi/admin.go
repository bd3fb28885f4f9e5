package httpapi

import (
	"strings"

	"perigee"
)

// authorize lets a request through to a route, or to the news that there is none, if it may know that.
func (c *call) authorize(r *route) error {
	switch {
	case r == nil || r.access == client:
		return c.authenticate()
	case r.access == owner:
		err := c.authorizeOwner()
		c.auditOwner(err)
		return err
	}
	return nil
}

// authorizeOwner asks for the admin token. Clients whose key is good for everything else are told that it is not for this.
func (c *call) authorizeOwner() error {
	if c.trusted {
		return nil
	}
	offer, _ := cutPrefixFold(c.r.Header.Get("Authorization"), "bearer ")
	if offer = strings.TrimSpace(offer); offer != "" && c.opts.Admin != nil {
		switch opens, err := c.opts.Admin(offer); {
		case err != nil:
			c.opts.Logger.Error("the admin token cannot be read", "error", err)
			return perigee.Errorf(perigee.ClassInternal, "the admin token cannot be read").WithNext("perigee's log says why")
		case opens:
			return nil
		}
	}
	const next = "send the content of admin.token in perigee's data directory as Authorization: Bearer, or use the perigee command"
	if c.authenticate() == nil && c.key != nil {
		return perigee.Errorf(perigee.ClassForbidden, "the key %s may call models, not manage perigee", c.key.Name).WithNext(next)
	}
	if offer == "" {
		return badKey("the admin token is required").WithNext(next)
	}
	return badKey("this is not the admin token").WithNext(next)
}
