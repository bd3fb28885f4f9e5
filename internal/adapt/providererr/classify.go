package providererr

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee"
)

// Classify diagnoses a response with an HTTP status that is not a success. The body may be
// anything: google.rpc JSON, bare or in a list, an OAuth error, an HTML page, cut off, or empty.
// The error has no tokens and no e-mail addresses in it; Link is as the provider gave it.
func Classify(status int, header http.Header, body []byte, now time.Time) Diagnosis {
	e := read(status, body)
	e.delay, e.delayNamed = e.wait(header, now)
	return e.diagnose(e.rule(), now)
}

// ClassifyStreamError diagnoses an event, or a whole body, of a response with status 200, if it is
// a JSON error.
func ClassifyStreamError(data []byte, now time.Time) (Diagnosis, bool) {
	// Large events are always answers, and most small ones can be recognized as answers without
	// parsing.
	if len(data) > maxBody || !bytes.Contains(data, []byte(`"error"`)) && !bytes.Contains(data, []byte(`"message"`)) {
		return Diagnosis{}, false
	}
	e := read(0, data)
	if !e.parsed || !e.isError {
		return Diagnosis{}, false
	}
	e.delay, e.delayNamed = e.wait(nil, now)
	return e.diagnose(e.rule(), now), true
}

// StatusError reads an error of the official Gemini API, and classifies it by the same rules.
// Message and details are as the provider wrote them; the message is empty if the body is not JSON
// or has none. status is 0 for an error inside a stream, which names its own.
//
// The codes of a sign-in server do not count: API keys have no sign-in. Nor does the sentence "You
// exceeded your current quota", which that API uses for limits per minute as well. A page with
// status 404 means that there is no such model: its name is a part of the path, and one with a
// colon makes a path that the API does not have.
func StatusError(status int, body []byte) *perigee.Error {
	e := read(status, body)
	e.oauth, e.html = "", false
	e.text = strings.ReplaceAll(e.text, "exceeded your current quota", "")
	e.delay, e.delayNamed = parseDelay(e.retryDelay)
	found := &perigee.Error{Class: meanings[e.rule().kind].class, Status: e.answerStatus(), Retry: e.delay}
	if e.parsed {
		found.Message, found.Details = e.whole, e.original
	}
	return found
}

// maxRefusal is the length of the longest text that can be a refusal. Longer texts only quote one.
const maxRefusal = 300

// ClassifyText diagnoses the whole text of an answer: the provider refuses a client version with
// status 200 and a text in place of the model's. A longer text is an answer.
func ClassifyText(text string) (Diagnosis, bool) {
	if len(text) > maxRefusal {
		return Diagnosis{}, false
	}
	e := evidence{message: text, text: normalize(text)}
	begins := func(refusal string) bool { return strings.HasPrefix(e.text, refusal) }
	for i := range rules {
		if r := &rules[i]; r.inAnswer && slices.ContainsFunc(r.texts, begins) {
			return e.diagnose(r, time.Time{}), true
		}
	}
	return Diagnosis{}, false
}

// rule returns the first rule that the evidence matches. The last rule matches everything.
func (e *evidence) rule() *rule {
	for i := range rules {
		if rules[i].matches(e) {
			return &rules[i]
		}
	}
	panic("providererr: the last rule does not match everything")
}

func (e *evidence) diagnose(r *rule, now time.Time) Diagnosis {
	v := New(r.kind, e.quote(), e.delay, now)
	v.Rule, v.Error.Details, v.Error.Status = r.name, e.details, e.answerStatus()
	if r.kind == KindVerification {
		v.Link = e.bestLink()
		v.Error.Hint = advice(meanings[r.kind], v, now)
	}
	return v
}

// answerStatus returns the provider's HTTP status, or 0 for a status that would wrongly report that
// the client's own HTTP request was invalid.
func (e *evidence) answerStatus() int {
	switch e.status {
	case http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusUnsupportedMediaType, http.StatusUpgradeRequired,
		http.StatusRequestHeaderFieldsTooLarge:
		return 0
	}
	return e.status
}

// advice returns the hint of a kind with the time and the link filled in.
func advice(m meaning, v Diagnosis, now time.Time) string {
	link := "accounts.google.com"
	// A link with an address in it is only for the owner of the account.
	if v.Link != "" && cleanWords(v.Link) == v.Link {
		link = v.Link
	}
	wait := cmp.Or(m.patience, "wait a little")
	if v.Delay > 0 {
		wait = WaitFor(v.Delay, now)
	}
	return strings.NewReplacer("{wait}", wait, "{link}", link).Replace(m.hint)
}

// WaitFor returns the hint to wait for a delay.
func WaitFor(delay time.Duration, now time.Time) string {
	whole := (delay + time.Second - 1).Truncate(time.Second)
	if delay < time.Minute {
		return "wait " + whole.String()
	}
	return fmt.Sprintf("wait until %s (%s)", now.Add(whole).Format("2006-01-02 15:04:05 MST"), whole)
}
