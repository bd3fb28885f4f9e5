package config

import (
	"net/http"
	"net/url"
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

func checkHeaders(text string) string {
	if _, ok := parseHeaders(text); !ok {
		return "expected headers as name=value, separated by commas"
	}
	return ""
}
