package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee"
)

// byKey answers each key in its own way: "" is an answer, "cut" one that breaks off, and anything
// else an error that quotes the key.
type byKey map[string]string

const quotaError = `{"error":{"code":429,"message":"no quota is left for KEY","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED"},` +
	`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"4561s"}]}}`

const badRequest = `{"error":{"code":400,"message":"this makes no sense","status":"INVALID_ARGUMENT"}}`

func (keys byKey) RoundTrip(req *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, req.Body)
	_ = req.Body.Close()
	key := req.Header.Get("X-Goog-Api-Key")
	status, body := http.StatusOK, "data: "+finished+"\r\n\r\n"
	switch how := keys[key]; how {
	case "":
	case "cut":
		body = "data: {}\r\n\r\n"
	case badRequest:
		status, body = http.StatusBadRequest, how
	default:
		status, body = http.StatusTooManyRequests, strings.ReplaceAll(how, "KEY", key)
	}
	return &http.Response{StatusCode: status, Request: req, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, err
}

// A key that gave way is on record by its place, and so is what came of the next.
func TestKeysThatGaveWayAreSteps(t *testing.T) {
	const one, two = "the-first-of-the-keys", "the-second-of-the-keys"
	exhausted := "no quota is left for [redacted]"
	for _, test := range []struct {
		name  string
		keys  []string
		says  byKey
		calls int
		want  string // the steps of the last call
	}{
		{"the first is good", []string{one, two}, byKey{}, 1, ""},
		{"the only one is used up", []string{one}, byKey{one: quotaError}, 1, ""},
		{"the second answers", []string{one, two}, byKey{one: quotaError}, 1, "key 1 of 2 exhausted " + exhausted + ", key 2 of 2"},
		{"the first is left out", []string{one, two}, byKey{one: quotaError}, 2, ""},
		{"the second breaks off", []string{one, two}, byKey{one: quotaError, two: "cut"}, 1,
			"key 1 of 2 exhausted " + exhausted + ", key 2 of 2 unavailable connection lost: the provider's answer ended before it was finished"},
		{"the second does not like the request", []string{one, two}, byKey{one: quotaError, two: badRequest}, 1,
			"key 1 of 2 exhausted " + exhausted + ", key 2 of 2 invalid this makes no sense"},
		{"both are used up", []string{one, two}, byKey{one: quotaError, two: quotaError}, 1, "key 1 of 2 exhausted " + exhausted + ", key 2 of 2 exhausted " + exhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			var secrets []perigee.Secret
			for _, k := range test.keys {
				secrets = append(secrets, perigee.NewSecret(k))
			}
			u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: secrets, Transport: test.says})
			defer u.Close()
			var log *perigee.CallLog
			for range test.calls {
				log = &perigee.CallLog{}
				req := request(t, true)
				req.Log = log
				_, _ = ask(t.Context(), u, req)
			}
			var got []string
			for _, s := range log.Attempts() {
				if s.Upstream != "s" || s.Account != "" {
					t.Errorf("%+v", s)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Why, s.Class, s.Error)))
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

// With one key the provider is asked each time: it knows best when there is quota again.
func TestTheOnlyKeyIsAskedAlthoughItWasUsedUp(t *testing.T) {
	says := byKey{"the-only-key": quotaError}
	u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: []perigee.Secret{perigee.NewSecret("the-only-key")}, Transport: says})
	defer u.Close()
	_, err := ask(t.Context(), u, request(t, true))
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassExhausted || e.Retry != 4561*time.Second {
		t.Fatalf("%v", err)
	}
	delete(says, "the-only-key")
	if text, err := ask(t.Context(), u, request(t, true)); text != "ok" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
