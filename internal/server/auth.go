package server

import (
	"errors"
	"net"
	"net/http"

	"perigee"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/mount"
)

// authorize checks the credential that the access level of a route requires. A path without a route
// requires a key, like most routes.
func (c *call) authorize(r *route) error {
	switch {
	case r == nil || r.access == mount.Client:
		return c.authenticate()
	case r.access == mount.ClientOrOwner:
		if valid, err := c.hasAdminToken(); valid && err == nil {
			c.owner = true
			return nil
		}
		return c.authenticate()
	case r.access == mount.Admin, r.access == mount.Socket:
		err := c.authorizeOwner(r)
		c.auditOwner(err)
		return err
	}
	return nil
}

// authorizeOwner checks the admin token, which does not open a route of the socket. A valid key of a
// client gets 403 in place of 401.
func (c *call) authorizeOwner(r *route) error {
	if c.trusted {
		return nil
	}
	next := "send the content of admin.token in perigee's data directory as Authorization: Bearer, or use the perigee command"
	if r.access == mount.Socket {
		next = "this is available through perigee's socket only: use " + r.command
	}
	switch valid, err := c.hasAdminToken(); {
	case err != nil:
		c.opts.Logger.Error("the admin token cannot be read", "error", err)
		return perigee.Errorf(perigee.ClassInternal, "the admin token cannot be read").WithHint("perigee's log says why")
	case valid && r.access == mount.Socket:
		return perigee.Errorf(perigee.ClassForbidden, "the admin token gives no access to this").WithHint("%s", next)
	case valid:
		return nil
	}
	if c.authenticate() == nil && c.key != nil {
		return perigee.Errorf(perigee.ClassForbidden, "the key %s may call models, not manage perigee", c.key.Name).WithHint("%s", next)
	}
	if offer, _ := clientkey.Bearer(c.r); offer == "" {
		return clientkey.Bad("the admin token is required").WithHint("%s", next)
	}
	return clientkey.Bad("this is not the admin token").WithHint("%s", next)
}

// hasAdminToken reports whether the request has the admin token. The error is about reading the
// token of the server.
func (c *call) hasAdminToken() (bool, error) {
	offer, _ := clientkey.Bearer(c.r)
	if offer == "" || c.opts.Admin == nil {
		return false, nil
	}
	return c.opts.Admin(offer)
}

// authenticate finds the key that the client presented.
func (c *call) authenticate() (err error) {
	if c.trusted || len(c.state.keys) == 0 {
		return nil
	}
	c.key, err = clientkey.Find(c.state.keys, clientkey.Offered(c.r, !c.dialect.headerKeys), c.opts.Now())
	return err
}

// slowDown counts a request without a valid key, and returns the error to answer it with. It waits
// first if there were too many such requests.
func (c *call) slowDown(err error) error {
	if !errors.Is(err, perigee.ErrBadKey) {
		return err
	}
	answer := c.failed.Guess(c.r.Context(), clientkey.AddressOf(c.r), err)
	if answer != err {
		c.w.Header().Set("Connection", "close")
	}
	return answer
}

// auditOwner names the actor of an administrative request for whatever it does, or records that it
// was refused.
func (c *call) auditOwner(refused error) {
	actor := perigee.Actor{Kind: perigee.ActorSocket, Call: c.id}
	if !c.trusted {
		actor.Kind, actor.From = c.offered(), remoteHost(c.r, c.r.RemoteAddr)
	}
	c.r = c.r.WithContext(perigee.WithActor(c.r.Context(), actor))
	if refused == nil || c.opts.Audit == nil {
		return
	}
	e := perigee.AuditEntry{Object: c.r.Method + " " + c.path, Result: string(perigee.AsError(refused).Class)}
	c.opts.Audit.Refused(c.r.Context(), e)
}

// offered returns the actor of an administrative request over TCP, from the credential that it
// contains, which may be invalid.
func (c *call) offered() string {
	switch {
	case c.key != nil:
		return perigee.ActorKey + " " + c.key.Name
	case len(clientkey.Offered(c.r, true)) == 0:
		return perigee.ActorNone
	}
	return perigee.ActorToken
}

// keyNames returns the names of the keys in force.
func (s *Server) keyNames() (list []string) {
	for _, k := range s.settings.Load().keys {
		list = append(list, k.Name)
	}
	return list
}

// remoteHost returns the remote address of a request without the port, or otherwise if it has no
// port.
func remoteHost(r *http.Request, otherwise string) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return otherwise
}
