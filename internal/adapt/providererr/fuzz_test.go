package providererr

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"perigee/internal/lib/redact"
)

// FuzzClassify: every answer gets a diagnosis with a hint, and without secrets.
func FuzzClassify(f *testing.F) {
	_, answers := readAnswers(f)
	for _, a := range answers {
		f.Add(a.status, a.header.Get("Retry-After"), a.body)
		f.Add(a.status, "", a.body[:len(a.body)/2])
	}
	f.Add(429, "1e999", []byte(`{"error":{"details":[{"retryDelay":{"seconds":"9223372036854775807","nanos":2147483647}}]}}`))
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte) {
		v := Classify(status, http.Header{"Retry-After": {retryAfter}, "X-Ratelimit-Reset": {retryAfter}, "Retry-After-Ms": {retryAfter}}, body, now)
		checkDiagnosis(t, v)
		checkDiagnosis(t, v.WithQuotaLeft())
		if v, ok := ClassifyStreamError(body, now); ok {
			checkDiagnosis(t, v)
		}
		if v, ok := ClassifyText(string(body)); ok {
			checkDiagnosis(t, v)
		}
	})
}

func checkDiagnosis(t *testing.T, v Diagnosis) {
	t.Helper()
	m, ok := meanings[v.Kind]
	if !ok || v.Error == nil || v.Error.Class != m.class || v.Scope != m.scope || v.Rule == "" {
		t.Fatalf("%+v: %+v", v, v.Error)
	}
	if v.Delay < 0 || v.Delay > MaxDelay || v.Error.Retry != v.Delay || !m.passes && v.Delay != 0 {
		t.Errorf("%s after %s and %s", v.Kind, v.Delay, v.Error.Retry)
	}
	text := v.Error.Error()
	if !utf8.ValidString(text) || len(text) > 4*(maxShown+500)+maxLink || strings.ContainsAny(text, "\n\r\x00\x1b") || strings.Contains(text, "{") && strings.Contains(text, "{wait}") {
		t.Errorf("message %q", text)
	}
	if redact.Emails(text) != text {
		t.Errorf("an address in %q", text)
	}
	if v.Link != "" && !trusted(v.Link) {
		t.Errorf("link %q", v.Link)
	}
	for _, link := range linkPattern().FindAllString(text, -1) {
		if !trusted(link) {
			t.Errorf("link %q in %q", link, text)
		}
	}
	for _, detail := range v.Error.Details {
		if !json.Valid(detail) || redact.Emails(string(detail)) != string(detail) {
			t.Errorf("detail %s", detail)
		}
	}
}
