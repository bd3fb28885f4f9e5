package antigravity

import (
	"encoding/json"
	"testing"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/verdict"
)

// Cause, class, status and advice are about one thing, and there is one time at most.
func TestNobodyLeft(t *testing.T) {
	last := func(kind verdict.Kind, class perigee.Class, delay time.Duration) *verdict.Verdict {
		return &verdict.Verdict{Kind: kind, Blame: verdict.ScopeAccount, Delay: delay, Error: &perigee.Error{Class: class, Message: "the last.", Next: "do as the last", Status: 418,
			Retry: delay, Details: []json.RawMessage{json.RawMessage(`{}`)}}}
	}
	link := last(verdict.KindVerification, perigee.ClassVerification, 0)
	link.Link = "https://accounts.google.com/signin/continue"
	for name, c := range map[string]struct {
		last    *verdict.Verdict
		cause   verdict.Kind // of the sum; empty: the lender does not say
		want    string       // message, advice
		class   perigee.Class
		details int
	}{
		"nobody was tried":   {nil, verdict.KindBan, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"another cause":      {last(verdict.KindBan, perigee.ClassForbidden, 0), verdict.KindVerification, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"the same":           {last(verdict.KindBan, perigee.ClassForbidden, 0), verdict.KindBan, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
		"never had it":       {last(verdict.KindIneligible, perigee.ClassForbidden, 0), verdict.KindBan, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
		"a link":             {link, verdict.KindVerification, "the sum (the last); do as the last", perigee.ClassExhausted, 1},
		"a link, not asked":  {link, verdict.KindSignedOut, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"the same time":      {last(verdict.KindQuota, perigee.ClassExhausted, time.Hour-time.Second), verdict.KindQuota, "the sum; do as the sum", perigee.ClassExhausted, 1},
		"another time":       {last(verdict.KindQuota, perigee.ClassExhausted, 3*time.Hour), verdict.KindQuota, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"nobody says why":    {last(verdict.KindBan, perigee.ClassForbidden, 0), "", "the last; do as the last", perigee.ClassForbidden, 1},
		"no time in a guess": {last(verdict.KindUnexplained, perigee.ClassRateLimited, 0), verdict.KindUnexplained, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
	} {
		sum := &perigee.Error{Class: perigee.ClassExhausted, Message: "the sum", Next: "do as the sum", Retry: time.Hour}
		if c.cause != "" {
			sum.Cause = &account.Shortage{Kind: c.cause}
		}
		call := &call{upstream: New(Options{})}
		got := nobodyLeft(c.last, call.failed(t.Context(), sum), causeOf(sum)).Error
		if got.Error() != c.want || got.Class != c.class || len(got.Details) != c.details {
			t.Errorf("%s: %s: %v, %d details", name, got.Class, got, len(got.Details))
		}
	}
}
