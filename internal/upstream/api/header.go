package api

import (
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// clientHeader returns the headers of a client that are for the provider: their names begin with one
// of the prefixes, and they are not for the connection alone.
func clientHeader(h http.Header, prefixes []string) http.Header {
	var out http.Header
	for name, values := range h {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) || isHopByHop(h, name) {
			continue
		}
		if out == nil {
			out = http.Header{}
		}
		out[name] = values
	}
	return out
}

// clientQuery returns the query with the parameters of a client that are for the provider, by their
// names, or "" if there are none. Credentials in a query are never among them.
func clientQuery(path string, names []string) string {
	_, query, found := strings.Cut(path, "?")
	if !found || len(names) == 0 {
		return ""
	}
	values, _ := url.ParseQuery(query) // the server has refused what cannot be read
	maps.DeleteFunc(values, func(name string, _ []string) bool { return !slices.Contains(names, name) })
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// isHopByHop reports whether Connection names a header.
func isHopByHop(h http.Header, name string) bool {
	for _, list := range h["Connection"] {
		for token := range strings.SplitSeq(list, ",") {
			if textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(token)) == name {
				return true
			}
		}
	}
	return false
}

// answerHeader returns the headers of an answer that the client gets: the id of the request, the
// limits of the account with the time until a retry, and OpenAI's own headers, without the names of
// the account and without keys. It is nil if the client gets none.
func (u *Upstream) answerHeader(out *outgoing, resp *http.Response) http.Header {
	if out.dialect == "" {
		return nil
	}
	header := http.Header{}
	for name, values := range resp.Header {
		switch {
		case name == "Openai-Organization", name == "Openai-Project":
		case strings.HasPrefix(name, "Openai-"), name == "Request-Id", name == "X-Request-Id", name == "Retry-After",
			strings.HasPrefix(name, "Anthropic-Ratelimit-"), strings.HasPrefix(name, "X-Ratelimit-"):
			for _, value := range values {
				header.Add(name, u.keys.cleanText(value))
			}
		}
	}
	return header
}

// passes reports whether a client of the provider's dialect gets an error unchanged. Exceptions are
// errors about perigee's key, which the client would take for errors about its own, prompts that are
// too long, for which perigee has the words of the dialect, pages of proxies, and other answers of
// servers that do not have the API.
func passes(e *perigee.Error, body []byte) bool {
	if e.Class == perigee.ClassUnauthenticated || providererr.AsTooLong(e) != nil ||
		rawjson.Check(body) != nil || rawjson.NewCursor(body).Kind() != rawjson.Object {
		return false
	}
	_, _, named := rawjson.Find(body, "error")
	return named || !errors.Is(e, errNoMethod)
}
