package providererr

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"
)

func TestLadder(t *testing.T) {
	want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}
	for failures, seconds := range want {
		if got := Ladder(failures); got != seconds*time.Second {
			t.Errorf("Ladder(%d) = %s, want %s", failures, got, seconds*time.Second)
		}
	}
	for failures, want := range map[int]time.Duration{-1: 0, 63: time.Minute, math.MaxInt: time.Minute} {
		if got := Ladder(failures); got != want {
			t.Errorf("Ladder(%d) = %s, want %s", failures, got, want)
		}
	}
}

func TestParseDelay(t *testing.T) {
	const no = -1
	tests := map[string]time.Duration{
		`"1h2m3.5s"`:           time.Hour + 2*time.Minute + 3500*time.Millisecond,
		`"1h16m0.667923083s"`:  time.Hour + 16*time.Minute + 667923083,
		`"0.5s"`:               500 * time.Millisecond,
		`"3600s"`:              time.Hour,
		`"3.957525076s"`:       3957525076,
		`"510.790006ms"`:       510790006,
		`"500ms"`:              500 * time.Millisecond, // not 500 minutes
		`"2m500ms"`:            2*time.Minute + 500*time.Millisecond,
		`"7us"`:                7 * time.Microsecond,
		`"7µs"`:                7 * time.Microsecond,
		`"7ns"`:                7,
		`"2d"`:                 48 * time.Hour,
		`"30"`:                 30 * time.Second,
		`30`:                   30 * time.Second,
		`1.5`:                  1500 * time.Millisecond,
		`{"seconds":"3"}`:      3 * time.Second,
		`{"seconds":3}`:        3 * time.Second,
		`{"nanos":5000}`:       5000,
		`"0s"`:                 0,
		`"-5s"`:                0,
		`-5`:                   0,
		`"999999h"`:            MaxDelay,
		`"99999999999999999h"`: MaxDelay,
		`1e400`:                no,
		`""`:                   no,
		`"soon"`:               no,
		`"5 parsecs"`:          no,
		`"5s or so"`:           no,
		`"h"`:                  no,
		`"-"`:                  no,
		`{}`:                   no,
		`[5]`:                  no,
		`null`:                 no,
		`true`:                 no,
	}
	for raw, want := range tests {
		got, ok := parseDelay(json.RawMessage(raw))
		if ok != (want != no) || ok && got != want {
			t.Errorf("%s: %s, %t, want %s", raw, got, ok, want)
		}
	}
}

func TestSpokenDelay(t *testing.T) {
	tests := map[string]time.Duration{
		"Your quota will reset after 2h5m":                                   2*time.Hour + 5*time.Minute,
		"You have exhausted it. Your quota will reset after 1h16m0s.":        time.Hour + 16*time.Minute,
		"Please retry in 12.3s":                                              12300 * time.Millisecond,
		"Please retry in 12.3s.":                                             12300 * time.Millisecond,
		"Please retry\n\t\tin 12.3s.":                                        12300 * time.Millisecond,
		"quota will reset in 20 seconds":                                     20 * time.Second,
		"Retry after 30 seconds":                                             30 * time.Second,
		"Retry-After: 30":                                                    30 * time.Second,
		"try again in 5m10s":                                                 5*time.Minute + 10*time.Second,
		"try again in 1 hour, 5 minutes and 2 seconds":                       time.Hour + 5*time.Minute + 2*time.Second,
		"please wait 30s before":                                             30 * time.Second,
		"backoff for 4s":                                                     4 * time.Second,
		"come back after 1h43m56s":                                           time.Hour + 43*time.Minute + 56*time.Second,
		"will reset at 2026-04-20T10:00:00Z.":                                time.Hour,
		"will reset after 0s.":                                               0,
		"retry the request. It will reset after 3s":                          3 * time.Second,
		"try again later":                                                    -1,
		"No capacity available for model 3":                                  -1,
		"wait 3 times":                                                       -1,
		"blocks immediately after: tool-call-59":                             -1,
		"Resource has been exhausted (e.g. check quota).":                    -1,
		"reset after twenty seconds":                                         -1,
		"will reset at 2026-04-20T08:00:00Z, which is over; again after 2 s": -3600 * time.Second,
	}
	for message, want := range tests {
		got, ok := messageDelay(message, now)
		if ok != (want != -1) || ok && got != want {
			t.Errorf("%q: %s, %t, want %s", message, got, ok, want)
		}
	}
}

// TestDelaySources gives each source a value of its own: the first that knows better than "now" is
// believed.
func TestDelaySources(t *testing.T) {
	const (
		message = "reset after 4s"
		stamp   = "2026-04-20T09:00:03Z"
	)
	header := http.Header{"Retry-After": {"5"}}
	tests := []struct {
		name   string
		e      evidence
		header http.Header
		want   time.Duration
		told   bool
	}{
		{"RetryInfo", evidence{retryDelay: json.RawMessage(`"1s"`), resetDelay: json.RawMessage(`"2s"`), resetTime: stamp, message: message}, header, 1 * time.Second, true},
		{"quotaResetDelay", evidence{resetDelay: json.RawMessage(`"2s"`), resetTime: stamp, message: message}, header, 2 * time.Second, true},
		{"time stamp", evidence{resetTime: stamp, message: message}, header, 3 * time.Second, true},
		{"message", evidence{message: message}, header, 4 * time.Second, true},
		{"header", evidence{}, header, 5 * time.Second, true},
		{"header in milliseconds", evidence{}, http.Header{"Retry-After-Ms": {"250.5"}, "Retry-After": {"1"}}, 250500 * time.Microsecond, true},
		{"header with a date", evidence{}, http.Header{"Retry-After": {"Mon, 20 Apr 2026 09:00:06 GMT"}}, 6 * time.Second, true},
		{"rate limit header", evidence{}, http.Header{"X-Ratelimit-Reset-After": {"7"}}, 7 * time.Second, true},
		{"rate limit header with a time", evidence{}, http.Header{"X-Ratelimit-Reset": {"1776675608"}}, 8 * time.Second, true},
		{"a broken field is passed over", evidence{retryDelay: json.RawMessage(`"soon"`), resetDelay: json.RawMessage(`"2s"`)}, nil, 2 * time.Second, true},
		{"zero is passed over", evidence{retryDelay: json.RawMessage(`"0s"`), message: message}, nil, 4 * time.Second, true},
		{"negative is passed over", evidence{retryDelay: json.RawMessage(`"-3s"`), message: message}, nil, 4 * time.Second, true},
		{"zero is all that was told", evidence{retryDelay: json.RawMessage(`"0s"`)}, nil, 0, true},
		{"a time that has passed", evidence{resetTime: "2026-04-20T08:59:59Z"}, nil, 0, true},
		{"a time in the far future", evidence{resetTime: "9999-12-31T23:59:59Z"}, nil, MaxDelay, true},
		{"a date in the far future", evidence{}, http.Header{"X-Ratelimit-Reset": {"9223372036854775807"}}, MaxDelay, true},
		{"a header that is nonsense", evidence{}, http.Header{"Retry-After": {"NaN"}, "Retry-After-Ms": {"NaN"}, "X-Ratelimit-Reset": {"-1"}}, 0, true},
		{"nothing", evidence{message: "no"}, http.Header{}, 0, false},
		{"nothing at all", evidence{}, nil, 0, false},
	}
	for _, test := range tests {
		if got, told := test.e.wait(test.header, now); got != test.want || told != test.told {
			t.Errorf("%s: %s, %t, want %s, %t", test.name, got, told, test.want, test.told)
		}
	}
}

// TestDelayOnlyWhereWaitingHelps keeps numbers in a complaint about the request from becoming a
// delay.
func TestDelayOnlyWhereWaitingHelps(t *testing.T) {
	header := http.Header{"Retry-After": {"5"}}
	for status, want := range map[int]time.Duration{400: 0, 401: 0, 403: 0, 404: 0, 429: 5 * time.Second, 500: 5 * time.Second, 503: 5 * time.Second, 529: 5 * time.Second} {
		if v := Classify(status, header, nil, now); v.Delay != want || v.Error.Retry != want {
			t.Errorf("%d: %s and %s, want %s", status, v.Delay, v.Error.Retry, want)
		}
	}
}

func TestWaiting(t *testing.T) {
	tests := map[time.Duration]string{
		479 * time.Millisecond:  "wait 1s",
		30 * time.Second:        "wait 30s",
		90*time.Minute + 1:      "wait until 2026-04-20 10:30:01 UTC (1h30m1s)",
		MaxDelay:                "wait until 2026-04-27 09:00:00 UTC (168h0m0s)",
		59*time.Second + 999999: "wait 1m0s",
	}
	for delay, want := range tests {
		if got := WaitFor(delay, now); got != want {
			t.Errorf("%s: %s, want %s", delay, got, want)
		}
	}
}
