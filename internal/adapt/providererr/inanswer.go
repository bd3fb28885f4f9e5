package providererr

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/lazyregexp"
)

var (
	// statusInText finds an HTTP status in a text: "code 429", "HTTP/1.1 503", "status: 403", and
	// without such a word those that are hardly ever other numbers.
	statusInText = lazyregexp.New(
		`(?i)\b(?:code|status|http(?:/\d(?:\.\d)?)?|error)[ :=(]*(4\d\d|5\d\d)\b|\b(429|503|529)\b`)

	// versionInText finds the refusal of a version of the product, which often has no status.
	versionInText = lazyregexp.New(
		`(?is)\bversion\b.{0,80}\b(?:no longer supported|not supported|out of date)\b` +
			`|\bno longer supported\b.{0,80}\bversion\b|\bunsupported client version\b`)
)

// FromText diagnoses an error that a language server passes on as a text, which may contain the
// JSON of the provider's error. status is the HTTP status of that error, or 0 if the text names it.
// details are the details of its google.rpc.Status, and valid JSON. known is false if nothing names
// a status: the text may not be the provider's then.
func FromText(
	status int, text string, details []json.RawMessage, now time.Time,
) (d Diagnosis, known bool) {
	if versionInText().MatchString(text) {
		return New(KindVersion, "", 0, now), true
	}
	if at, end := strings.Index(text, "{"), strings.LastIndex(text, "}"); at >= 0 && end > at {
		d, ok := ClassifyStreamError([]byte(text[at:end+1]), now)
		if ok && d.Kind != KindOther {
			return d, true
		}
	}
	if status == 0 {
		status = namedStatus(text)
	}
	body, err := json.Marshal(map[string]any{
		"error": map[string]any{"code": status, "message": text, "details": details}})
	if err != nil {
		body = []byte(text)
	}
	return Classify(status, nil, body, now), status != 0
}

// namedStatus returns the HTTP status that a text names; 0 if there is none.
func namedStatus(text string) int {
	if strings.Contains(strings.ToLower(text), "no capacity") {
		return http.StatusServiceUnavailable
	}
	if m := statusInText().FindStringSubmatch(text); m != nil {
		status, _ := strconv.Atoi(m[1] + m[2])
		return status
	}
	for _, name := range []string{"RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "UNAVAILABLE"} {
		if strings.Contains(text, name) {
			return statusNames[name]
		}
	}
	return 0
}

// MayRefuse reports whether an answer that begins with text may be a refusal that ClassifyText
// recognizes. The answer is held back as long as it may.
func MayRefuse(text string) bool {
	if len(text) > maxRefusal {
		return false
	}
	text = normalize(text)
	mayBecome := func(refusal string) bool { return strings.HasPrefix(refusal, text) || strings.HasPrefix(text, refusal) }
	return slices.ContainsFunc(rules, func(r rule) bool { return r.inAnswer && slices.ContainsFunc(r.texts, mayBecome) })
}
