package providererr

import (
	"net/http"
	"testing"
	"time"
)

// Traps 75 and 76: the delay stands in any of the details, and one of nothing is none.
func TestDelayIsFoundWhereverItStands(t *testing.T) {
	const info = `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quotaResetDelay":"0s"}}`
	const retry = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"2.5s"}`
	for _, details := range []string{info + "," + retry, retry + "," + info} {
		body := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Your quota will reset after 0s.","details":[` + details + `]}}`
		if v := Classify(http.StatusTooManyRequests, nil, []byte(body), time.Now()); v.Delay != 2500*time.Millisecond || v.Kind != KindRate {
			t.Errorf("%s: %s, %v", details, v.Kind, v.Delay)
		}
	}
}

// Trap 83: an account without credits has no quota for these models, and stays in the pool.
func TestMissingCreditsAreNotTheAccountsEnd(t *testing.T) {
	body := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Insufficient credits.","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INSUFFICIENT_G1_CREDITS_BALANCE"}]}}`
	if v := Classify(http.StatusTooManyRequests, nil, []byte(body), time.Now()); v.Kind != KindCredits || v.Scope != ScopeAccountFamily {
		t.Errorf("%s, %s", v.Kind, v.Scope)
	}
}
