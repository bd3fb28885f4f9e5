package server

import (
	"net/http"
)

// maxHead is the default maximum size of the head of a request.
const maxHead = 64 << 10

// preflight answers a CORS preflight. A path that does not exist is allowed as well, so that the
// page can read the error.
func (c *call) preflight() error {
	allowed := "GET, POST"
	if route, _ := c.findRoute(c.path); route != nil {
		allowed = route.allow()
	}
	preflight(c.w.Header(), c.r, allowed)
	c.writeHead(http.StatusNoContent)
	return nil
}
