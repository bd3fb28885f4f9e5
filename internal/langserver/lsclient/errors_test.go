package lsclient

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"perigee"
)

// The failures that the language server is known for: what it answers, the class, and a part of the
// message or the hint.
func TestErrorsAreClassified(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	for _, e := range []struct {
		status int
		body   string
		class  perigee.Class
		says   string
	}{
		{500, `{"code":"unknown","message":"run state not found for cascade 12"}`, perigee.ClassNotFound, "start a new one"},
		{500, `{"code":"unknown","message":"input not registered for step 7"}`, perigee.ClassInvalid, "WAITING"},
		{500, `{"code":"unknown","message":"plan model not specified"}`, perigee.ClassInvalid, "name a model"},
		{500, `{"code":"unknown","message":"neither PlanModel nor RequestedModel specified"}`, perigee.ClassInvalid, "name a model"},
		{500, `{"code":"unknown","message":"model not found: MODEL_PLACEHOLDER_M1"}`, perigee.ClassNotFound, "perigee models"},
		{500, `{"code":"unknown","message":"cannot specify both workspace URIs and project environment config"}`, perigee.ClassInvalid, "not both"},
		{500, `{"code":"unknown","message":"project_id is required when providing project_env_config"}`, perigee.ClassInvalid, "project"},
		{500, `{"code":"unknown","message":"untrusted workspace"}`, perigee.ClassForbidden, "trust it"},
		{500, `{"code":"unknown","message":"reactive state is deprecated"}`, perigee.ClassUnimplemented, "StreamAgentStateUpdates"},
		{500, `{"code":"unknown","message":"Post \"/v1internal:loadCodeAssist\": unsupported protocol scheme \"\""}`, perigee.ClassUnavailable, "restart"},
		{403, `{"code":"permission_denied","message":"This version of Antigravity is no longer supported. Please update."}`, perigee.ClassIdentity, "set version:"},
		{500, `{"code":"unknown","message":"request failed: This version of Antigravity is no longer supported"}`, perigee.ClassIdentity, "no longer supported"},
		{401, `{"code":"unauthenticated","message":"Request had invalid authentication credentials: CREDENTIALS_MISSING"}`, perigee.ClassUnauthenticated, "perigee login"},
		{500, `{"code":"unknown","message":"error 403: ACCESS_TOKEN_SCOPE_INSUFFICIENT"}`, perigee.ClassUnauthenticated, "permissions"},
		{500, `{"code":"unknown","message":"RESOURCE_EXHAUSTED (code 429): No capacity available for model gemini-3-flash"}`, perigee.ClassCapacity, "capacity"},
		{500, `{"code":"unknown","message":"HTTP 503: No capacity available for model gemini-3-flash on the server"}`, perigee.ClassCapacity, "capacity"},
		{500, `{"code":"unknown","message":"rpc error (429 Too Many Requests): rate limit exceeded"}`, perigee.ClassRateLimited, "many"},
		{429, `{"code":"resource_exhausted","message":"You have exhausted your capacity on this model. Your quota will reset after 3h2m1s."}`, perigee.ClassExhausted, "quota"},
		{500, `{"code":"unknown","message":"stream failed: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"You have exhausted your capacity on this model.\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"QUOTA_EXHAUSTED\"}]}}"}`, perigee.ClassExhausted, "quota"},
		{503, `{"code":"unavailable","message":"no capacity"}`, perigee.ClassCapacity, ""},
		{404, `{"code":"not_found","message":"no such thing"}`, perigee.ClassNotFound, "no such thing"},
		{400, `{"code":"invalid_argument","message":"unknown field \"x\""}`, perigee.ClassInvalid, "unknown field"},
		{400, `{"code":"failed_precondition","message":"busy"}`, perigee.ClassInvalid, "busy"},
		{501, `{"code":"unimplemented","message":"later"}`, perigee.ClassUnimplemented, "later"},
		{403, `{"code":"permission_denied","message":"not yours"}`, perigee.ClassForbidden, "not yours"},
		{500, `{"code":"internal","message":"bug"}`, perigee.ClassUnavailable, "bug"},
		{500, `{"code":"unknown","message":"something new"}`, perigee.ClassUnavailable, "something new"},
		{499, `{"code":"canceled","message":"context canceled"}`, perigee.ClassCanceled, "canceled"},
		{500, `{"code":"brand_new","message":"x"}`, perigee.ClassUnavailable, "x"},
		{404, `404 page not found`, perigee.ClassUnimplemented, "page not found"},
		{415, ``, perigee.ClassUnimplemented, "Unsupported Media Type"},
		{400, `Client sent an HTTP request to an HTTPS server.`, perigee.ClassUnavailable, "other port"},
		{502, `<html>`, perigee.ClassUnavailable, ""},
		{302, ``, perigee.ClassUnavailable, "Found"},
		{401, `missing CSRF token`, perigee.ClassUnavailable, "CSRF"},
		{403, `Invalid CSRF token`, perigee.ClassUnavailable, "CSRF"},
		{401, `{"code":"unauthenticated","message":"missing CSRF token"}`, perigee.ClassUnavailable, "CSRF"},
	} {
		server.answer("GetCascadeTrajectory", e.status, e.body)
		before := server.calls("GetCascadeTrajectory")
		_, err := c.Trajectory(t.Context(), "c")
		if got := perigee.AsError(err); err == nil || got.Class != e.class || !strings.Contains(err.Error(), e.says) {
			t.Errorf("%d %s: %v, want class %s and %q", e.status, e.body, err, e.class, e.says)
		}
		if calls := server.calls("GetCascadeTrajectory") - before; calls != 1 {
			t.Errorf("%d %s: %d calls", e.status, e.body, calls)
		}
	}
}

// The text counts for more than the status, and may be all that there is.
func TestTextsHaveAClass(t *testing.T) {
	for _, e := range []struct {
		status int
		text   string
		class  perigee.Class
	}{
		{429, "Our servers are experiencing high traffic right now", perigee.ClassRateLimited},
		{503, "The model is overloaded", perigee.ClassCapacity},
		{0, "HTTP 503 Service Unavailable: no capacity available", perigee.ClassCapacity},
		{401, "CREDENTIALS_MISSING", perigee.ClassUnauthenticated},
		{0, "this version is no longer supported", perigee.ClassIdentity},
		{0, "the agent stopped", perigee.ClassUnavailable},
		{0, "", perigee.ClassUnavailable},
	} {
		if err := (wireError{Message: e.text}).error(Endpoint{}, e.status); err.Class != e.class {
			t.Errorf("%d %q: class %s, want %s: %v", e.status, e.text, err.Class, e.class, err)
		}
	}
}

func TestSecretsAreNotRepeated(t *testing.T) {
	var log bytes.Buffer
	server := newServer()
	endpoint := serve(t, server)
	c := New(Options{Endpoint: Fixed(endpoint), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	server.answer("GetCascadeTrajectory", 500, fmt.Sprintf(`{"code":"unknown","message":"token %s of ada@example.com, ya29.secret-access-token, refused"}`, token))
	_, err := c.Trajectory(t.Context(), "c")
	server.mu.Lock()
	server.token = "another"
	server.mu.Unlock()
	_, err2 := c.UserStatus(t.Context())
	for _, text := range []string{err.Error(), err2.Error(), log.String(), fmt.Sprintf("%+v", endpoint)} {
		for _, secret := range []string{token, "ada@", "ya29", "access-token"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", secret, text)
			}
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
}

func TestTheWrongPortIsExplained(t *testing.T) {
	secure := serveTLS(t, newServer())
	_, err := connected(Endpoint{HTTP: secure.HTTPS, CSRF: secure.CSRF}).Trajectory(t.Context(), "c")
	wantClass(t, err, perigee.ClassUnavailable)
	if !strings.Contains(err.Error(), "port is the one for HTTPS") {
		t.Error(err)
	}
	plain := serve(t, newServer())
	c, _ := clientOf(Endpoint{HTTPS: plain.HTTP, CSRF: plain.CSRF})
	c.limits.refused = 0
	_, err = c.Trajectory(t.Context(), "c")
	wantClass(t, err, perigee.ClassUnavailable)
	if !strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		t.Error(err)
	}
	_, err = connected(Endpoint{}).Trajectory(t.Context(), "c")
	wantClass(t, err, perigee.ClassInternal)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	server := newServer()
	target := serve(t, newServer())
	server.handle("Heartbeat", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.url("Heartbeat"), http.StatusTemporaryRedirect)
	})
	wantClass(t, connected(serve(t, server)).Heartbeat(t.Context()), perigee.ClassUnavailable)
}

// FuzzErrors reads any answer of a failed call.
func FuzzErrors(f *testing.F) {
	f.Add(500, []byte(`{"code":"unknown","message":"HTTP 429: {\"error\":{\"code\":429}}"}`))
	f.Add(401, []byte(`missing CSRF token`))
	f.Add(0, []byte(`{"message":"version … not supported"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		endpoint := Endpoint{HTTP: 1, CSRF: perigee.NewSecret(token)}
		err := responseError(endpoint, &http.Response{StatusCode: status, Header: http.Header{}}, append(body, token...))
		if err.Class == "" || err.Message == "" || strings.Contains(err.Error(), token) || len(err.Message) > 2000 {
			t.Errorf("%d %q: %+v", status, body, err)
		}
	})
}

// Hints name keys of the upstream: it has version, the gateway upstream has client_version.
func TestHintsNameTheKeyOfTheUpstream(t *testing.T) {
	err := wireError{Message: `HTTP 404: {"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}`}.error(Endpoint{}, 404)
	if err.Class != perigee.ClassNotFound || !strings.Contains(err.Hint, "a newer version") {
		t.Errorf("%v, hint %q", err, err.Hint)
	}
}
