// Package account judges what the provider's answers mean for the accounts that the calls were made with.
//
// Classify reads an answer of the Antigravity API, or of the sign-in server, that is not a success and says what kind
// of trouble it is, who it belongs to, when it ends and what the user can do. It is two tables: rules.go leads from what
// the provider said to a Kind, kind.go from a Kind to what follows from it. Ladder is how long to leave an account
// alone when the provider did not say.
//
// The package calls nobody, has no clock and remembers nothing: who retries, waits, changes the host or the account
// does so on the strength of a Verdict. The antigravity upstream and the sign-in call it.
package account

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"perigee"
)

// A Verdict is what an answer of the provider means for the call and for the account that made it.
type Verdict struct {
	Kind     Kind
	Blame    Scope          // who it belongs to, and so who is to be left alone
	NextHost bool           // another endpoint may answer the same call
	Delay    time.Duration  // when it ends, as the provider said, at most MaxDelay; 0: it did not say, or said "at once"
	Error    *perigee.Error // never nil, always with a class
	Link     string         // where the account is verified, when the provider gave a link that can be trusted
	Rule     string         // the row of the table that decided, for traces
}

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

// WithQuotaLeft is the verdict for somebody who knows that the account had quota left for the model, or that another account
// was answered alike. A 429 that explains nothing is then no limit: the provider words it so when it does not like
// the client that the system prompt names, and no account is to be blamed for it.
func (v Verdict) WithQuotaLeft() Verdict {
	if v.Kind != KindUnexplained {
		return v
	}
	m := meanings[KindIdentity]
	e := *v.Error
	e.Class, e.Next = m.class, m.next
	e.Message = strings.Replace(e.Message, meanings[KindUnexplained].says, m.says, 1)
	v.Kind, v.Blame, v.NextHost, v.Error = KindIdentity, m.blame, m.nextHost, &e
	return v
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
	panic("account: the last rule does not take everything")
}

func (e *evidence) verdict(r *rule, now time.Time) Verdict {
	m := meanings[r.kind]
	v := Verdict{Kind: r.kind, Blame: m.blame, NextHost: m.nextHost, Rule: r.name}
	if m.passes {
		v.Delay = e.delay
	}
	if r.kind == KindVerification {
		v.Link = e.bestLink()
	}
	v.Error = &perigee.Error{
		Class:   m.class,
		Message: m.says + ": " + e.quote(),
		Next:    advice(m, v, now),
		Retry:   v.Delay,
		Details: e.details,
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
		wait = waiting(v.Delay, now)
	}
	return strings.NewReplacer("{wait}", wait, "{link}", link).Replace(m.next)
}

func waiting(delay time.Duration, now time.Time) string {
	whole := (delay + time.Second - 1).Truncate(time.Second)
	if delay < time.Minute {
		return "wait " + whole.String()
	}
	return fmt.Sprintf("wait until %s (%s)", now.Add(whole).Format("2006-01-02 15:04:05 MST"), whole)
}
