package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// limited refuses the first calls with a rate limit that names a delay, and answers then.
type limited struct {
	delay string
	times int // how often it refuses
	asked []string
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	l.asked = append(l.asked, req.Header.Get("X-Goog-Api-Key"))
	status, body := http.StatusOK, "data: "+finished+"\r\n\r\n"
	if len(l.asked) <= l.times {
		status = http.StatusTooManyRequests
		body = `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + l.delay + `"}]}}`
	}
	return &http.Response{StatusCode: status, Request: req, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, err
}

// A rate limit of a moment is waited for, once, with the same key; a longer one is passed on, or
// the next key asked.
func TestShortRateLimitsAreWaitedFor(t *testing.T) {
	for _, test := range []struct {
		name  string
		keys  string
		says  limited
		leave time.Duration // when the client leaves; 0 means never
		asked string
		took  time.Duration
		class perigee.Class // empty means it is answered
	}{
		{"for a moment", "a", limited{delay: "0.479s", times: 1}, 0, "[a a]", 479 * time.Millisecond, ""},
		{"for three seconds", "a", limited{delay: "3s", times: 1}, 0, "[a a]", 3 * time.Second, ""},
		{"again and again", "a", limited{delay: "1s", times: 9}, 0, "[a a]", time.Second, perigee.ClassRateLimited},
		{"for longer", "a", limited{delay: "3.1s", times: 1}, 0, "[a]", 0, perigee.ClassRateLimited},
		{"with another key", "a b", limited{delay: "1s", times: 2}, 0, "[a a b]", time.Second, ""},
		{"for longer, with another key", "a b", limited{delay: "9s", times: 1}, 0, "[a b]", 0, ""},
		{"and the client leaves", "a b", limited{delay: "2s", times: 9}, time.Second, "[a]", time.Second, perigee.ClassCanceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var secrets []perigee.Secret
				for key := range strings.FieldsSeq(test.keys) {
					secrets = append(secrets, perigee.NewSecret(key))
				}
				u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: secrets, Transport: &test.says})
				defer u.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.leave > 0 {
					time.AfterFunc(test.leave, cancel)
				}
				began := time.Now()
				_, err := ask(ctx, u, request(t, true))
				var class perigee.Class
				if err != nil {
					class = perigee.AsError(err).Class
				}
				if took := time.Since(began); fmt.Sprint(test.says.asked) != test.asked || took != test.took || class != test.class {
					t.Errorf("asked %v, took %v, error %v", test.says.asked, took, err)
				}
			})
		})
	}
}
