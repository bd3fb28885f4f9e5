package httpapi

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/names"
)

// maxHead is how large the head of a request may be where the settings do not say it.
const maxHead = 64 << 10

// checkHead refuses requests whose head is larger than limits.head, in the caller's dialect. net/http stops reading a head some 64 KiB
// beyond that (http.Server.MaxHeaderBytes) and answers 431 itself, so that a connection cannot hold more than that before any key is
// asked for.
func (c *call) checkHead() error {
	limit := cmp.Or(c.state.MaxHead, maxHead)
	size := len(c.r.RequestURI)
	for name, values := range c.r.Header {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size <= limit {
		return nil
	}
	e := perigee.Errorf(perigee.ClassInvalid, "the head of the request has %d bytes", size).WithNext("send at most %d, or raise limits.head", limit)
	e.Status = http.StatusRequestHeaderFieldsTooLarge
	return e
}

// checkOrigin refuses what a web page could send behind its reader's back. A loopback address is not trust:
// any page may ask the browser to connect there, under a host name of the page's own choosing.
func (c *call) checkOrigin() error {
	host := hostname(c.r.Host)
	if c.state.Loopback && !names.IsLoopback(host) && !c.state.allowsHost(host) {
		return perigee.Errorf(perigee.ClassForbidden, "requests for host %q are not answered here", shorten(host)).
			WithNext("use 127.0.0.1 or localhost in the base URL, or add the name to hosts in perigee's configuration")
	}
	origins := c.r.Header.Values("Origin")
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if (err != nil || u.Host == "" || !strings.EqualFold(u.Host, c.r.Host)) && !c.state.allowsOrigin(origin) {
			return perigee.Errorf(perigee.ClassForbidden, "requests from web pages of the origin %q are not answered", shorten(origin)).
				WithNext("call perigee from a program, or add the origin to origins in perigee's configuration")
		}
	}
	if site := c.r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && site == "cross-site" {
		return perigee.Errorf(perigee.ClassForbidden, "requests from another site's web page are not answered").
			WithNext("call perigee from a program, or with fetch from a page whose origin is in origins of perigee's configuration")
	}
	return nil
}

// allowsHost says whether the configuration has a name, besides those that every loopback listener has.
func (s *state) allowsHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return slices.ContainsFunc(s.Hosts, func(allowed string) bool { return strings.EqualFold(strings.TrimSuffix(allowed, "."), host) })
}

// hostname takes the port off a Host header.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

// IsLoopback says whether a listen address can be reached from this machine only.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && host != "" && names.IsLoopback(host)
}

// presented returns what the client offers as its key, in each of the forms that clients use.
func presented(r *http.Request) []string {
	var list []string
	if bearer, ok := cutPrefixFold(r.Header.Get("Authorization"), "bearer "); ok {
		list = append(list, strings.TrimSpace(bearer))
	}
	for _, header := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if v := r.Header.Get(header); v != "" {
			list = append(list, v)
		}
	}
	if strings.Contains(r.URL.RawQuery, "key=") {
		if v := r.URL.Query().Get("key"); v != "" {
			list = append(list, v)
		}
	}
	return list
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}
