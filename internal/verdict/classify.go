package verdict

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Classify judges an answer with an HTTP status that is not a success. The body may be anything: google.rpc JSON, bare or
// in a list, an OAuth error, an HTML page, cut off, or nothing. The error has neither tokens nor e-mail addresses in it;
// Link is as the provider gave it.
func Classify(status int, header http.Header, body []byte, now time.Time) Verdict {
	e := read(status, body)
	e.delay, e.told = e.wait(header, now)
	return e.judge(now)
}

// ClassifyStreamError judges one piece of an answer that began with status 200, the JSON of an event or a whole body, if it
// is an error rather than a piece of an answer. What is not JSON is neither.
func ClassifyStreamError(data []byte, now time.Time) (Verdict, bool) {
	// Most pieces are answers, large ones always, and are not worth reading twice.
	if len(data) > maxBody || !bytes.Contains(data, []byte(`"error"`)) && !bytes.Contains(data, []byte(`"message"`)) {
		return Verdict{}, false
	}
	e := read(0, data)
	if !e.parsed || !e.isError {
		return Verdict{}, false
	}
	e.delay, e.told = e.wait(nil, now)
	return e.judge(now), true
}

// maxSpoken is how long a refusal that comes as an answer can be. Longer texts only quote one.
const maxSpoken = 300

// ClassifyText judges the whole text of an answer: the provider tells a client that is too old so in the words of the
// model, with status 200. A text that goes on to something else is an answer.
func ClassifyText(text string) (Verdict, bool) {
	if len(text) > maxSpoken {
		return Verdict{}, false
	}
	e := evidence{message: text, text: normalize(text)}
	for i := range rules {
		if r := &rules[i]; r.spoken && startsLike(e.text, r.texts) {
			return e.verdict(r, time.Time{}), true
		}
	}
	return Verdict{}, false
}

// WithoutAddresses returns a text that may name accounts, for whoever made the call: whose accounts answer is for their
// owner to know.
func WithoutAddresses(text string) string { return emailPattern.ReplaceAllString(text, redacted) }

// judge finds the rule that the evidence falls under. The last rule takes everything.
func (e *evidence) judge(now time.Time) Verdict {
	for i := range rules {
		if rules[i].matches(e) {
			return e.verdict(&rules[i], now)
		}
	}
	panic("verdict: the last rule does not take everything")
}

func (e *evidence) verdict(r *rule, now time.Time) Verdict {
	v := New(r.kind, e.quote(), e.delay, now)
	v.Rule, v.Error.Details = r.name, e.details
	if r.kind == KindVerification {
		v.Link = e.bestLink()
		v.Error.Next = advice(meanings[r.kind], v, now)
	}
	// These would tell the client that its own HTTP request was wrong, which it was not.
	switch e.status {
	case http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusUnsupportedMediaType, http.StatusUpgradeRequired,
		http.StatusRequestHeaderFieldsTooLarge:
	default:
		v.Error.Status = e.status
	}
	return v
}

// advice is the next step of a kind of trouble with the time and the link filled in.
func advice(m meaning, v Verdict, now time.Time) string {
	link := "accounts.google.com"
	// A link with the user's address in it is for the account's owner only, not for whoever reads the error.
	if v.Link != "" && redactPairs(v.Link) == v.Link {
		link = v.Link
	}
	wait := cmp.Or(m.patience, "wait a little")
	if v.Delay > 0 {
		wait = WaitFor(v.Delay, now)
	}
	return strings.NewReplacer("{wait}", wait, "{link}", link).Replace(m.next)
}

// WaitFor is the advice to wait for so long.
func WaitFor(delay time.Duration, now time.Time) string {
	whole := (delay + time.Second - 1).Truncate(time.Second)
	if delay < time.Minute {
		return "wait " + whole.String()
	}
	return fmt.Sprintf("wait until %s (%s)", now.Add(whole).Format("2006-01-02 15:04:05 MST"), whole)
}
