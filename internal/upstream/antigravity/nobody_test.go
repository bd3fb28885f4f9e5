package antigravity

import (
	"encoding/json"
	"testing"
	"time"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
)

// Cause, class, status and advice are about one thing, and there is one time at most.
func TestNobodyLeft(t *testing.T) {
	last := func(kind providererr.Kind, class perigee.Class, delay time.Duration) *providererr.Diagnosis {
		return &providererr.Diagnosis{Kind: kind, Scope: providererr.ScopeAccount, Delay: delay, Error: &perigee.Error{Class: class, Message: "the last.", Hint: "do as the last", Status: 418,
			Retry: delay, Details: []json.RawMessage{json.RawMessage(`{}`)}}}
	}
	link := last(providererr.KindVerification, perigee.ClassVerification, 0)
	link.Link = "https://accounts.google.com/signin/continue"
	for name, c := range map[string]struct {
		last    *providererr.Diagnosis
		cause   providererr.Kind // of the sum; empty means the fakePool does not say
		want    string           // message, advice
		class   perigee.Class
		details int
	}{
		"nobody was tried":   {nil, providererr.KindBan, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"another cause":      {last(providererr.KindBan, perigee.ClassForbidden, 0), providererr.KindVerification, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"the same":           {last(providererr.KindBan, perigee.ClassForbidden, 0), providererr.KindBan, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
		"never had it":       {last(providererr.KindIneligible, perigee.ClassForbidden, 0), providererr.KindBan, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
		"a link":             {link, providererr.KindVerification, "the sum (the last); do as the last", perigee.ClassExhausted, 1},
		"a link, not asked":  {link, providererr.KindSignedOut, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"the same time":      {last(providererr.KindQuota, perigee.ClassExhausted, time.Hour-time.Second), providererr.KindQuota, "the sum; do as the sum", perigee.ClassExhausted, 1},
		"another time":       {last(providererr.KindQuota, perigee.ClassExhausted, 3*time.Hour), providererr.KindQuota, "the sum; do as the sum", perigee.ClassExhausted, 0},
		"nobody says why":    {last(providererr.KindBan, perigee.ClassForbidden, 0), "", "the last; do as the last", perigee.ClassForbidden, 1},
		"no time in a guess": {last(providererr.KindUnexplained, perigee.ClassRateLimited, 0), providererr.KindUnexplained, "the sum (the last); do as the sum", perigee.ClassExhausted, 1},
	} {
		sum := &perigee.Error{Class: perigee.ClassExhausted, Message: "the sum", Hint: "do as the sum", Retry: time.Hour}
		if c.cause != "" {
			sum.Cause = &pool.Shortage{Kind: c.cause}
		}
		call := &call{upstream: New(Options{})}
		got := exhausted(c.last, call.failed(t.Context(), sum), causeOf(sum)).Error
		if got.Error() != c.want || got.Class != c.class || len(got.Details) != c.details {
			t.Errorf("%s: %s: %v, %d details", name, got.Class, got, len(got.Details))
		}
	}
}
