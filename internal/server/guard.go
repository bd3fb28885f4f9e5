package server

import (
	"net/http"
)

// maxHead is how large the head of a request may be where the settings do not say it.
const maxHead = 64 << 10

// pages says which web pages may call.
func (s *state) pages() browserPolicy {
	return browserPolicy{Loopback: s.Loopback, Origins: s.Origins, Hosts: s.Hosts}
}

// preflight answers a browser that asks what a page may send. A path that does not exist is
// allowed, too, so that the page can read the error about it.
func (c *call) preflight() error {
	allowed := "GET, POST"
	if route, _ := c.findRoute(c.path); route != nil {
		allowed = route.allow()
	}
	preflight(c.w.Header(), c.r, allowed)
	c.writeHead(http.StatusNoContent)
	return nil
}
