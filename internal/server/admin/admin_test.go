package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server/mount"
)

// An adminRig is an API whose parts remember what they were asked.
type adminRig struct {
	API
	call  mount.Call
	acts  []perigee.AuditEntry
	query any // the last that was asked
	calls []perigee.Call
	err   error
}

func newAdminRig() *adminRig {
	rig := &adminRig{call: mount.Call{ID: "c1"}}
	rig.API = API{Audit: rig, Acts: rig, Calls: rig, Usage: rig, Keeper: rig,
		KeyNames: func() []string { return []string{"laptop"} },
		Status:   func() perigee.DaemonStatus { return perigee.DaemonStatus{Version: "v1"} }}
	return rig
}

func (r *adminRig) Record(_ context.Context, e perigee.AuditEntry) error {
	r.acts = append(r.acts, e)
	return r.err
}

func (r *adminRig) Refused(context.Context, perigee.AuditEntry) {}

func (r *adminRig) AuditEntries(_ context.Context, q perigee.AuditQuery) ([]perigee.AuditEntry, error) {
	r.query = q
	return nil, r.err
}

func (r *adminRig) Calls(_ context.Context, q perigee.CallQuery) (found []perigee.Call, err error) {
	r.query = q
	for _, c := range r.calls {
		if (q.ID == "" || q.ID == c.ID) && strings.HasPrefix(c.ID, q.Prefix) && (q.Limit == 0 || len(found) < q.Limit) {
			found = append(found, c)
		}
	}
	return found, r.err
}

func (r *adminRig) Usage(_ context.Context, q perigee.UsageQuery) ([]perigee.UsageRow, error) {
	r.query = q
	return nil, r.err
}

func (r *adminRig) StoreReport(context.Context) (perigee.StoreReport, error) {
	return perigee.StoreReport{Engine: "sqlite"}, r.err
}

func (r *adminRig) CompactStore(context.Context) (perigee.StoreCompacted, error) {
	return perigee.StoreCompacted{Database: "/d", Freed: 7}, r.err
}

// do makes a request to whichever path matches.
func (r *adminRig) do(t *testing.T, method, target, body string) (answer string, failed error) {
	t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	r.call.Fail = func(err error) { failed = err }
	req = req.WithContext(mount.WithCall(req.Context(), &r.call))
	for _, p := range r.Points() {
		if wildcard, ok := mount.MatchPath(p.Path, req.URL.Path); ok {
			mount.SetWildcard(req, wildcard)
			w := httptest.NewRecorder()
			p.Handler.ServeHTTP(w, req)
			return w.Body.String(), failed
		}
	}
	t.Fatalf("no path %s", target)
	return "", nil
}

func class(err error) perigee.Class {
	if err == nil {
		return ""
	}
	return perigee.AsError(err).Class
}

func TestWrongMethods(t *testing.T) {
	for _, request := range []string{"POST /v1/usage", "DELETE /v1/traces/c1", "PUT /v1/accounts", "GET /v1/accounts/use",
		"GET /v1/store/compact", "PATCH /v1/audit"} {
		method, target, _ := strings.Cut(request, " ")
		if _, err := newAdminRig().do(t, method, target, ""); err == nil || perigee.AsError(err).Status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %v", request, err)
		}
	}
}

func TestQueriesThatAreNotUnderstood(t *testing.T) {
	for _, target := range []string{"/v1/usage?buy=model", "/v1/usage?since=yesterday", "/v1/usage?until=1",
		"/v1/traces?limit=1001", "/v1/traces?limit=0",
		"/v1/traces?errors=maybe", "/v1/traces?since=2d", "/v1/traces?model=a&model=b", "/v1/traces/c1?x=1", "/v1/audit?limit=1001",
		"/v1/audit?since=now", "/v1/audit?until=now", "/v1/audit?akteur=x"} {
		rig := newAdminRig()
		rig.calls = []perigee.Call{{ID: "c1"}}
		if _, err := rig.do(t, "GET", target, ""); class(err) != perigee.ClassInvalid {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// A key sees its own calls, whatever it asks for; the owner sees all.
func TestUsageIsThatOfTheKey(t *testing.T) {
	for _, key := range []string{"laptop", ""} {
		rig := newAdminRig()
		rig.call.Key = key
		body, err := rig.do(t, "GET", "/v1/usage?by=day&since=2026-01-01T00:00:00Z", "")
		if q := rig.query.(perigee.UsageQuery); err != nil || body != "[]" || q.Key != key || q.By != "day" || q.Since.IsZero() {
			t.Errorf("%q: %+v, %s, %v", key, q, body, err)
		}
	}
}

func TestFindCall(t *testing.T) {
	rig := newAdminRig()
	for _, id := range []string{"abc1", "abc2", "abc", "abd1", "abd2", "abd3", "abd4", "abd5", "abd6", "x"} {
		rig.calls = append(rig.calls, perigee.Call{ID: id})
	}
	for name, want := range map[string]string{
		"abc": "abc", "abc2": "abc2", "x": "x", LastCall: "abc1", "ab": "and more", "abd": "and more", "y": "not_found",
		"":                       "not_found",
		strings.Repeat("a", 101): "not_found",
	} {
		found, err := FindCall(t.Context(), rig, name)
		switch {
		case want == "not_found":
			if class(err) != perigee.ClassNotFound {
				t.Errorf("%.20q: %v", name, err)
			}
		case want == "and more":
			if class(err) != perigee.ClassInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", name, err)
			}
		case err != nil || found.ID != want:
			t.Errorf("%q: %v, %v", name, found, err)
		}
	}
	rig.calls = nil
	if _, err := FindCall(t.Context(), rig, LastCall); class(err) != perigee.ClassNotFound {
		t.Errorf("the last of none: %v", err)
	}
	rig.err = errors.New("disk")
	if _, err := FindCall(t.Context(), rig, "x"); err == nil || class(err) == perigee.ClassNotFound {
		t.Errorf("a store that fails: %v", err)
	}
}

// Reading traces is audited whether it succeeds or not, and a key in the query is not kept.
func TestReadingTracesIsAudited(t *testing.T) {
	rig := newAdminRig()
	rig.calls = []perigee.Call{{ID: "call-one"}, {ID: "call-two"}}
	for _, target := range []string{"/v1/traces?key=laptop", "/v1/traces?key=sk-secret", "/v1/traces?limit=x",
		"/v1/traces/call-o", "/v1/traces/nothing"} {
		_, _ = rig.do(t, "GET", target, "")
	}
	want := []perigee.AuditEntry{
		{Action: perigee.AuditTraceList, Object: "key=laptop", Detail: "2 calls"},
		{Action: perigee.AuditTraceList, Object: "key=[redacted]", Detail: "2 calls"},
		{Action: perigee.AuditTraceList, Object: "limit=x", Result: string(perigee.ClassInvalid)},
		{Action: perigee.AuditTraceRead, Object: "call-one"},
		{Action: perigee.AuditTraceRead, Object: "nothing", Result: string(perigee.ClassNotFound)},
	}
	if !slices.Equal(rig.acts, want) {
		t.Errorf("got  %+v\nwant %+v", rig.acts, want)
	}
}

func TestTraceFilterOfOneCall(t *testing.T) {
	query := url.Values{"since": {"2026-01-02T03:04:05.678+02:00"}, "key": {"a", "laptop"}}
	if got := TraceFilter(query, []string{"laptop"}); got != "key=[redacted]&key=laptop&since=2026-01-02T01:04:05Z" {
		t.Errorf("got %s", got)
	}
	if query["key"][0] != "a" {
		t.Error("the query was changed")
	}
	if TracesRead(1) != "1 call" || TracesRead(0) != "0 calls" {
		t.Error(TracesRead(1), TracesRead(0))
	}
}

// Commands record four kinds of acts through the socket, and nothing else does.
func TestRecordingActs(t *testing.T) {
	const act = `{"action":"account.export","object":"ada@example.com","result":"ok"}`
	for _, test := range []struct {
		name, body string
		trusted    bool
		err        error
		want       perigee.Class
	}{
		{"a command", act, true, nil, ""},
		{"a request with the admin token", act, false, nil, perigee.ClassForbidden},
		{"another act", `{"action":"trace.read"}`, true, nil, perigee.ClassInvalid},
		{"an unknown member", `{"action":"account.export","time":"now"}`, true, nil, perigee.ClassInvalid},
		{"a repeated member", `{"action":"account.export","action":"sign_in.failed"}`, true, nil, perigee.ClassInvalid},
		{"no object", `[]`, true, nil, perigee.ClassInvalid},
		{"nothing", ``, true, nil, perigee.ClassInvalid},
		{"half of it", act[:20], true, nil, perigee.ClassInvalid},
		{"two of them", act + act, true, nil, perigee.ClassInvalid},
		{"a store that fails", act, true, errors.New("disk"), perigee.ClassInternal},
	} {
		rig := newAdminRig()
		rig.call.Trusted, rig.err = test.trusted, test.err
		if _, err := rig.do(t, "POST", "/v1/audit", test.body); class(err) != test.want {
			t.Errorf("%s: %v", test.name, err)
		}
		if recorded := len(rig.acts) == 1; recorded != (test.want == "" || test.err != nil) {
			t.Errorf("%s: %+v", test.name, rig.acts)
		}
	}
}

// Compacting is audited with what it has freed, or with its error.
func TestCompactingIsAudited(t *testing.T) {
	rig := newAdminRig()
	if body, err := rig.do(t, "POST", "/v1/store/compact", ""); err != nil || !strings.Contains(body, `"freed_bytes":7`) {
		t.Errorf("%s, %v", body, err)
	}
	rig.err = perigee.Errorf(perigee.ClassUnavailable, "busy")
	if _, err := rig.do(t, "POST", "/v1/store/compact", ""); class(err) != perigee.ClassUnavailable {
		t.Errorf("%v", err)
	}
	if len(rig.acts) != 2 || rig.acts[0].Detail != "7 bytes freed" || rig.acts[1].Detail != "" ||
		rig.acts[1].Result != "unavailable" {
		t.Errorf("%+v", rig.acts)
	}
}
