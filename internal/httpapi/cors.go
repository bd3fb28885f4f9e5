package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// Web pages of the origins in the configuration may call perigee. Browsers ask for leave first (a preflight, an OPTIONS request
// without a key) and let the page read an answer only if it names the page's origin; see the Fetch standard, section 3.2. Keys are
// sent in headers, so credentials that a browser adds by itself are never allowed.

// Headers that clients send, for preflights that do not say which they will send.
const requestHeaders = "authorization, content-type, x-api-key, x-goog-api-key, x-goog-api-client, anthropic-version, anthropic-beta, " +
	"anthropic-dangerous-direct-browser-access, openai-organization, openai-project, openai-beta, session_id, user-agent"

// Headers of answers that a page may read besides the few that it always may.
const exposedHeaders = "x-perigee-call, x-perigee-upstream, x-perigee-model, x-perigee-notes, x-perigee-class, request-id, x-request-id, retry-after"

// preflightAge is how many seconds a browser may remember what a preflight said: a reload that takes an origin away counts soon.
const preflightAge = "600"

// allowsOrigin says whether the configuration lets pages of an origin in.
func (s *state) allowsOrigin(origin string) bool {
	return slices.ContainsFunc(s.Origins, func(allowed string) bool { return strings.EqualFold(allowed, origin) })
}

// describeOrigin tells the browser that the page may read the answer, whatever it will be, if its origin is in the configuration.
func (c *call) describeOrigin() {
	if c.trusted || len(c.state.Origins) == 0 {
		return
	}
	header := c.w.Header()
	header.Add("Vary", "Origin") // the answer to another origin would be another one
	if origin := c.r.Header.Get("Origin"); c.state.allowsOrigin(origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// isPreflight says whether a browser asks what a page of an origin in the configuration may send.
func (c *call) isPreflight() bool {
	return !c.trusted && c.r.Method == http.MethodOptions && c.r.Header.Get("Access-Control-Request-Method") != "" &&
		c.state.allowsOrigin(c.r.Header.Get("Origin"))
}

// preflight answers that question. A path that does not exist is allowed, too, so that the page can read the error about it.
func (c *call) preflight() error {
	allowed := "GET, POST"
	if route, _ := findRoute(c.path); route != nil {
		allowed = route.allow()
	}
	header := c.w.Header()
	header.Del("Access-Control-Expose-Headers")
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", allowed)
	header.Set("Access-Control-Allow-Headers", allowedHeaders(c.r.Header.Get("Access-Control-Request-Headers")))
	header.Set("Access-Control-Max-Age", preflightAge)
	if c.r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	c.writeHead(http.StatusNoContent)
	return nil
}

// maxAllowed is how many headers are allowed at once. Libraries have twenty or so; a preflight needs no key, and may name thousands.
const maxAllowed = 100

// allowedHeaders are the usual ones, and those of the request: libraries send many of their own.
func allowedHeaders(requested string) string {
	list := strings.Split(requestHeaders, ", ")
	for name := range strings.SplitSeq(requested, ",") {
		if len(list) == maxAllowed {
			break
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if isToken(name) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

// isToken says whether a text could be the name of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
