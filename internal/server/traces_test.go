package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/server"
)

// calls is a store of calls, the newest first.
type calls []perigee.Call

func (list calls) Calls(_ context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	var found []perigee.Call
	past := q.Before == ""
	for _, c := range list {
		fits := (q.ID == "" || q.ID == c.ID) && strings.HasPrefix(c.ID, q.Prefix) && (!q.Errors || c.Class != "") &&
			(q.Model == "" || q.Model == c.Model) && (q.Key == "" || q.Key == c.Client.Key)
		if past && fits && (q.Limit == 0 || len(found) < q.Limit) {
			found = append(found, c)
		}
		past = past || c.ID == q.Before
	}
	if !past {
		return nil, perigee.Errorf(perigee.ClassNotFound, "there is no call %s", q.Before)
	}
	return found, nil
}

// discardedAudit is an audit log without entries.
type discardedAudit struct{}

func (discardedAudit) Record(context.Context, perigee.AuditEntry) error { return nil }
func (discardedAudit) Refused(context.Context, perigee.AuditEntry)      {}

func TestTraces(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stored := calls{
		{ID: "c3", Time: at, Dialect: perigee.DialectGemini, ModelAsked: "m", Outcome: perigee.OutcomeOpen},
		{ID: "c2", Time: at, Dialect: perigee.DialectOpenAIChat, ModelAsked: "fast", Model: "m", Upstream: "u",
			Account: "ada@example.com",
			Outcome: perigee.OutcomeDone, FirstByte: 1500 * time.Microsecond, Duration: 2 * time.Second,
			Usage: perigee.Usage{Input: 10, Output: 5, Thinking: 2}, Notes: []string{"dropped seed"},
			Attempts: []perigee.Attempt{{Upstream: "u", Account: "ada@example.com", Why: "sticky", Took: time.Second}}},
		{ID: "c1", Time: at, Outcome: perigee.OutcomeFailed, Class: perigee.ClassExhausted, Status: 429, Error: "no quota"},
		{ID: "d1234567", Time: at, Outcome: perigee.OutcomeDone},
	}
	s := server.New(server.Options{Calls: stored, Audit: discardedAudit{}, Admin: func(offer string) (bool, error) { return offer == "the-token", nil }},
		server.Settings{Keys: []server.Key{{Name: "laptop", Secret: perigee.NewSecret("client-secret")}}})
	get := func(path, offer string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+offer)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, test := range []struct {
		path, offer string
		status      int
		want        []string
	}{
		{"/v1/traces", "the-token", 200, []string{`"id":"c3"`, `"status":0`, `"id":"c2"`, `"first_byte_ms":1.5`,
			`"duration_ms":2000`, `"status":200`, `"class":"exhausted"`, `"status":429`}},
		{"/v1/traces?limit=1", "the-token", 200, []string{`[{"id":"c3"`}},
		{"/v1/traces?before=c2", "the-token", 200, []string{`[{"id":"c1"`}},
		{"/v1/traces?before=c9", "the-token", 404, []string{`there is no call \"c9\"`}},
		{"/v1/traces?before=last", "the-token", 200, []string{`[{"id":"c2"`}},
		{"/v1/traces?errors=true", "the-token", 200, []string{`[{"id":"c1"`}},
		{"/v1/traces?errors=perhaps", "the-token", 400, []string{"errors=true"}},
		{"/v1/traces?since=yesterday", "the-token", 400, []string{"2026-01-31T00:00:00Z"}},
		{"/v1/traces?model=m", "the-token", 200, []string{`[{"id":"c2"`}},
		{"/v1/traces?key=laptop", "the-token", 200, []string{`[]`}},
		{"/v1/traces/last", "the-token", 200, []string{`{"id":"c3"`}},
		{"/v1/traces/c", "the-token", 400, []string{`several calls begin with \"c\": c3, c2, c1; enter more of the ID`}},
		{"/v1/traces/d", "the-token", 200, []string{`{"id":"d1234567"`}},
		{"/v1/traces?limit=0", "the-token", 400, []string{"from 1 to 1000"}},
		{"/v1/traces?limit=many", "the-token", 400, []string{"from 1 to 1000"}},
		{"/v1/traces/c2", "the-token", 200, []string{`"notes":["dropped seed"]`, `"why":"sticky"`, `"model_asked":"fast"`,
			`"thinking_tokens":2`}},
		{"/v1/traces/c1", "the-token", 200, []string{`"notes":[]`, `"steps":[]`, `"error":"no quota"`}},
		{"/v1/traces/c9", "the-token", 404, []string{`there is no call`}},
		{"/v1/traces", "client-secret", 403, nil},
		{"/v1/traces/c2", "client-secret", 403, nil},
		{"/v1/traces/c2", "another", 401, nil},
	} {
		status, body := get(test.path, test.offer)
		if status != test.status || !json.Valid([]byte(body)) {
			t.Errorf("GET %s with %s: %d %s, want %d", test.path, test.offer, status, body, test.status)
		}
		for _, want := range test.want {
			if !strings.Contains(body, want) {
				t.Errorf("GET %s: no %s in %s", test.path, want, body)
			}
		}
	}
}
