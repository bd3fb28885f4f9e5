package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
)

// A projectRig is a provider whose keys have quotas of their own. Answers are by "KEY TARGET",
// where the target is the model, its method behind a colon unless that is streamGenerateContent, or
// "list"; a request without one is answered.
type projectRig struct {
	answers map[string]string
	asked   []string // since the last look
}

const (
	invalidKey = `400 {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`
	badKey     = `401 {"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}`
	leakedKey  = `403 {"error":{"code":403,"message":"Your API key was reported as leaked. Please use another API key.","status":"PERMISSION_DENIED"}}`
	suspended  = `403 {"error":{"code":403,"message":"Permission denied.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED"}]}}`
	otherFile  = `403 {"error":{"code":403,"message":"You do not have permission to access the File abc or it may not exist.","status":"PERMISSION_DENIED"}}`
	noQuota    = `429 {"error":{"code":429,"message":"used up","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1800s"}]}}`
	sooner     = `429 {"error":{"code":429,"message":"used up","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA_EXHAUSTED"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"90s"}]}}`
	slowDown   = `429 {"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}]}}`
)

func (r *projectRig) RoundTrip(req *http.Request) (*http.Response, error) {
	var err error
	if req.Body != nil {
		_, err = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	target := strings.TrimSuffix(path.Base(req.URL.Path), ":streamGenerateContent")
	body := "data: " + finished + "\r\n\r\n"
	switch {
	case req.Method == http.MethodGet:
		target, body = "list", `{"models":[]}`
	case strings.HasSuffix(target, ":countTokens"):
		body = `{"totalTokens":1}`
	case strings.Contains(target, "mbed"):
		body = `{"embeddings":[{"values":[1]}]}`
	}
	asked := req.Header.Get("X-Goog-Api-Key") + " " + target
	r.asked = append(r.asked, asked)
	status := http.StatusOK
	if answer := r.answers[asked]; answer != "" {
		_, _ = fmt.Sscan(answer, &status)
		body = answer[4:]
	}
	header := http.Header{}
	if strings.HasPrefix(body, "{") {
		header.Set("Content-Type", "application/json; charset=UTF-8")
	}
	return &http.Response{StatusCode: status, Request: req, Header: header, Body: io.NopCloser(strings.NewReader(body))}, err
}

// do makes a call with what is behind the colon, of a model; "list" asks for the models. It returns
// the keys that were asked and the class of the error with its delay.
func (r *projectRig) do(t *testing.T, u *Upstream, what string) string {
	t.Helper()
	model, method, _ := strings.Cut(what, ":")
	var err error
	switch {
	case what == "list":
		_, err = u.Models(t.Context())
	case method == "countTokens":
		req := request(t, false)
		req.Model = model
		_, err = u.CountTokens(t.Context(), req)
	case method == "batchEmbedContents":
		_, err = u.Embed(t.Context(), embedOf(nil, model))
	default:
		req := request(t, true)
		req.Model = model
		_, err = ask(t.Context(), u, req)
	}
	var keys []string
	for _, asked := range r.asked {
		key, _, _ := strings.Cut(asked, " ")
		keys = append(keys, key)
	}
	r.asked = nil
	text := strings.Join(keys, " ")
	if e := perigee.AsError(err); e != nil {
		text += fmt.Sprintf(", %s", e.Class)
		if e.Retry > 0 {
			text += fmt.Sprintf(" for %v", e.Retry)
		}
	}
	return text
}

// Quotas belong to a key's project and a model, so a key rests for the model whose quota is used
// up. It rests for all models only if it is not valid.
func TestWhatKeysRestFor(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers map[string]string
		steps   [][2]string // calls, after an optional time to wait, and the keys that are asked
	}{
		{"one is invalid, the other has no quota for one model", map[string]string{"1 flash": invalidKey, "1 pro": invalidKey, "2 pro": noQuota}, [][2]string{
			{"flash", "1 2"}, {"pro", "2 1, exhausted for 30m0s"}, {"flash", "2"}, {"+65s flash", "1 2"}, {"pro", "1 2, exhausted for 30m0s"}}},
		{"the first has no quota for one model", map[string]string{"1 pro": noQuota}, [][2]string{
			{"pro", "1 2"}, {"flash", "1"}, {"pro", "2"}, {"flash", "1"}, {"+31m pro", "1 2"}}},
		{"an error with status 200", map[string]string{"1 pro": "200" + noQuota[3:], "2 lite": "200" + slowDown[3:], "1 lite": badKey}, [][2]string{
			{"pro", "1 2"}, {"flash", "1"}, {"pro", "2"}, {"lite", "1 2, rate_limited for 20s"}, {"+31m pro", "1 2"}}},
		{"a rate limit", map[string]string{"1 pro": slowDown}, [][2]string{{"pro", "1 2"}, {"pro", "2"}, {"flash", "1"}, {"+21s pro", "1 2"}}},
		{"no quota for embeddings", map[string]string{"1 vector:batchEmbedContents": noQuota}, [][2]string{
			{"vector:batchEmbedContents", "1 2"}, {"flash", "1"}, {"vector:batchEmbedContents", "2"}}},
		{"no quota for counting", map[string]string{"1 flash:countTokens": noQuota}, [][2]string{
			{"flash:countTokens", "1 2"}, {"flash", "1"}, {"flash:countTokens", "2"}}},
		{"the first is used up, the second invalid", map[string]string{"1 pro": noQuota, "2 pro": badKey}, [][2]string{
			{"pro", "1 2, exhausted for 30m0s"}, {"pro", "2 1, exhausted for 30m0s"}}},
		{"the first is invalid, the second used up", map[string]string{"1 pro": badKey, "2 pro": noQuota}, [][2]string{{"pro", "1 2, exhausted for 30m0s"}}},
		{"both are used up", map[string]string{"1 pro": sooner, "2 pro": noQuota}, [][2]string{{"pro", "1 2, exhausted for 1m30s"}, {"pro", "1 2, exhausted for 1m30s"}}},
		{"the second has quota sooner", map[string]string{"1 pro": noQuota, "2 pro": sooner}, [][2]string{{"pro", "1 2, exhausted for 1m30s"}, {"pro", "2 1, exhausted for 1m30s"}}},
		{"both are invalid", map[string]string{"1 pro": badKey, "2 pro": invalidKey}, [][2]string{{"pro", "1 2, unauthenticated"}, {"pro", "1 2, unauthenticated"}}},
		{"what is forbidden is the request's", map[string]string{"1 pro": otherFile, "2 pro": otherFile}, [][2]string{{"pro", "1 2, forbidden"}, {"flash", "1"}, {"pro", "1 2, forbidden"}}},
		{"the file is the second key's", map[string]string{"1 pro": otherFile}, [][2]string{{"pro", "1 2"}, {"flash", "1"}}},
		{"the request is forbidden, and the second is invalid", map[string]string{"1 pro": otherFile, "2 pro": badKey}, [][2]string{{"pro", "1 2, forbidden"}}},
		{"the first has leaked", map[string]string{"1 pro": leakedKey}, [][2]string{{"pro", "1 2"}, {"flash", "2"}}},
		{"the first is suspended", map[string]string{"1 pro": suspended}, [][2]string{{"pro", "1 2"}, {"flash", "2"}}},
		{"the list is refused", map[string]string{"1 list": noQuota}, [][2]string{{"list", "1 2"}, {"flash", "1"}}},
		{"the list is refused to a key", map[string]string{"1 list": badKey}, [][2]string{{"list", "1 2"}, {"flash", "1"}}},
		{"the list is refused to both", map[string]string{"1 list": leakedKey, "2 list": leakedKey}, [][2]string{{"list", "1 2, forbidden"}, {"flash", "1"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rig := &projectRig{answers: test.answers}
				u := New(Gemini, Options{Name: "s", URL: "https://provider.example", Keys: []perigee.Secret{perigee.NewSecret("1"), perigee.NewSecret("2")}, Transport: rig})
				defer u.Close()
				for i, step := range test.steps {
					what := step[0]
					if after, rest, ok := strings.Cut(what, " "); ok {
						d, err := time.ParseDuration(after)
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(d)
						what = rest
					}
					if got := rig.do(t, u, what); got != step[1] {
						t.Errorf("call %d, %s: asked %s, want %s", i+1, step[0], got, step[1])
					}
				}
			})
		})
	}
}

// What a key is resting for is forgotten when it is answered all the same.
func TestAnswersEndTheRest(t *testing.T) {
	ring := newKeyring([]perigee.Secret{perigee.NewSecret("1")})
	key, now, pro, flash := ring.keys[0], time.Now(), quota{model: "pro"}, quota{model: "flash"}
	for _, q := range []quota{pro, flash} {
		ring.coolDown(key, q, &perigee.Error{Class: perigee.ClassExhausted, Retry: time.Hour}, now)
	}
	ring.markAccepted(key, pro)
	if key.rest(pro, now) != 0 || key.rest(flash, now) == 0 {
		t.Errorf("it rests for %v and %v", key.rest(pro, now), key.rest(flash, now))
	}
	ring.coolDown(key, pro, &perigee.Error{Class: perigee.ClassUnauthenticated}, now)
	ring.markAccepted(key, quota{}) // a list says nothing about calls
	if key.rest(pro, now) == 0 {
		t.Error("the list has ended it")
	}
	if ring.markAccepted(key, pro); key.rest(pro, now) != 0 {
		t.Errorf("it rests for %v", key.rest(pro, now))
	}
}

// What a key is resting for is forgotten when the time is over.
func TestOldRestsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newKeyring([]perigee.Secret{perigee.NewSecret("1"), perigee.NewSecret("2")})
		for i := range 1000 {
			ring.coolDown(ring.keys[0], quota{model: fmt.Sprint(i)}, &perigee.Error{Class: perigee.ClassRateLimited}, time.Now())
			time.Sleep(time.Second)
		}
		if n := len(ring.keys[0].models); n > 2 {
			t.Errorf("%d are kept", n)
		}
	})
}

// No part of an error of the provider has the key, however it is escaped.
func TestErrorsHaveNoKey(t *testing.T) {
	const secret = "ABSKQmVkcm9jaw/b+c=="
	escaped := `{"k":"ABSKQmVkcm9jaw\/b\u002Bc\u003d="}`
	u := &Upstream{Provider: &Provider{}, keys: newKeyring([]perigee.Secret{perigee.NewSecret(secret)})}
	err := u.explain(t.Context(), "m", &perigee.Error{Class: perigee.ClassInvalid, Message: "it said " + escaped,
		Cause: &perigee.Fault{Param: secret, Code: "c"}, Details: []json.RawMessage{[]byte(escaped)}, Raw: &perigee.RawError{Body: []byte(escaped)}})
	e := perigee.AsError(err)
	for got, want := range map[string]string{
		e.Message: `it said {"k":"[redacted]"}`, string(e.Details[0]): `{"k":"[redacted]"}`, string(e.Raw.Body): `{"k":"[redacted]"}`,
		e.Cause.Error(): "[redacted]: c",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
