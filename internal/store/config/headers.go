package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// parseHeaders reads HTTP headers in the form of OTEL_EXPORTER_OTLP_HEADERS: name=value, separated
// by commas, with percent signs for characters that cannot be in it.
func parseHeaders(text string) (http.Header, bool) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, false
		}
		h.Add(name, value)
	}
	return h, true
}

// CredentialIn returns the credential in the value of a header: the last word if it has at least 16
// characters and is not a URL, or "". Shorter words are names.
func CredentialIn(value string) string {
	word := value[strings.LastIndex(value, " ")+1:]
	if u, err := url.Parse(word); len(word) < goodSecret || err == nil && u.Host != "" {
		return ""
	}
	return word
}

// forbiddenHeader reports whether a header cannot be set for requests to providers: it belongs to
// the connection, the body or the credentials, or names the client.
func forbiddenHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "content-") || strings.HasPrefix(name, "proxy-") ||
		slices.Contains([]string{"authorization", "host", "cookie", "user-agent", "connection", "keep-alive",
			"te", "trailer", "transfer-encoding", "upgrade", "expect", "accept-encoding"}, name)
}

func checkHeaders(text string) string {
	if _, ok := parseHeaders(text); !ok {
		return "expected headers as name=value, separated by commas"
	}
	return ""
}
