package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/netguard"
	"perigee/internal/server/mount"
)

// The checks of this file decide which web pages and host names may call the server.
//
// A loopback address is not trust: any page may ask the browser to connect there, under a host name
// of the page's own choosing. Pages of the origins in the configuration may call. Browsers ask for
// permission first (a preflight, an OPTIONS request without a key) and let the page read an answer
// only if it names the page's origin; see the Fetch standard, section 3.2. Keys are sent in
// headers, so credentials that a browser adds by itself are never allowed.

// checkPage refuses requests that a web page could send without its user's knowledge.
func (s *Settings) checkPage(r *http.Request) error {
	host := hostname(r.Host)
	if s.Loopback && !netguard.IsLoopback(host) && !s.allowsHost(host) {
		return perigee.Errorf(perigee.ClassForbidden, "requests for host %q are not answered here", mount.Shorten(host)).
			WithHint("use 127.0.0.1 or localhost in the base URL, or add the name to hosts in perigee's configuration")
	}
	origins := r.Header.Values("Origin")
	site := r.Header.Get("Sec-Fetch-Site")
	for _, origin := range origins {
		if origin == "null" && site == "same-origin" {
			// A form of a page with Referrer-Policy: no-referrer. Pages cannot set Sec-Fetch-Site.
			continue
		}
		u, err := url.Parse(origin)
		if (err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)) && !s.allowsOrigin(origin) {
			origin = mount.Shorten(origin)
			return perigee.Errorf(perigee.ClassForbidden, "requests from web pages of the origin %q are not answered", origin).
				WithHint("call perigee from a program, or add the origin to origins in perigee's configuration")
		}
	}
	if len(origins) == 0 && site == "cross-site" && !isLink(r) {
		return perigee.Errorf(perigee.ClassForbidden, "requests from another site's web page are not answered").
			WithHint("call perigee from a program, or with fetch from a page whose origin is in origins of perigee's configuration")
	}
	return nil
}

// isLink reports whether a person has followed a link to the start page: one in a chat, for
// example, that signs in to the dashboard. The page that has the link cannot read the answer, and
// the browser sends no cookie with SameSite=Strict.
func isLink(r *http.Request) bool {
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func (s *Settings) allowsOrigin(origin string) bool {
	return slices.ContainsFunc(s.Origins, func(allowed string) bool { return strings.EqualFold(allowed, origin) })
}

func (s *Settings) allowsHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return slices.ContainsFunc(s.Hosts, func(allowed string) bool {
		return strings.EqualFold(strings.TrimSuffix(allowed, "."), host)
	})
}

// hostname takes the port off a Host header.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

// exposedHeaders are headers of answers that a page may read besides the few that it always may.
const exposedHeaders = "x-perigee-call, x-perigee-upstream, x-perigee-model, x-perigee-notes, x-perigee-class, " +
	"request-id, x-request-id, retry-after, x-should-retry"

// allowPage sets the headers that allow a page to read the answer, if its origin is allowed.
func (s *Settings) allowPage(header http.Header, r *http.Request) {
	if len(s.Origins) == 0 {
		return
	}
	header.Add("Vary", "Origin") // the answer to another origin would be another one
	if origin := r.Header.Get("Origin"); s.allowsOrigin(origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// isPreflight reports whether a request is a CORS preflight from an allowed origin.
func (s *Settings) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" &&
		s.allowsOrigin(r.Header.Get("Origin"))
}

// preflightAge is the number of seconds that a browser may cache a preflight. It is short, so that
// the removal of an origin takes effect soon.
const preflightAge = "600"

// preflight writes the answer to a preflight into the header of a response. methods are the methods
// of the path.
func preflight(header http.Header, r *http.Request, methods string) {
	header.Del("Access-Control-Expose-Headers")
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header.Get("Access-Control-Request-Headers")))
	header.Set("Access-Control-Max-Age", preflightAge)
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
}

// requestHeaders are the usual headers of clients, for preflights that do not list theirs.
const requestHeaders = "authorization, content-type, x-api-key, x-goog-api-key, x-goog-api-client, " +
	"anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, " +
	"openai-organization, openai-project, openai-beta, session_id, user-agent"

// maxAllowed is how many headers are allowed at once. Libraries have twenty or so; a preflight
// needs no key, and may name thousands.
const maxAllowed = 100

// allowedHeaders returns the usual headers and the requested ones, because libraries send many of
// their own.
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

// isToken reports whether a text could be the name of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
