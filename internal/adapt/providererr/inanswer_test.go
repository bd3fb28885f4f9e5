package providererr

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMayRefuseFollowsARefusalWordByWord(t *testing.T) {
	refusal := "This version of Antigravity is no longer supported. Please update to receive the latest features!"
	if _, ok := ClassifyText(refusal); !ok {
		t.Fatal("not a refusal any more")
	}
	for i := range len(refusal) {
		if !MayRefuse(refusal[:i]) {
			t.Errorf("given up at %q", refusal[:i])
		}
	}
	for _, answer := range []string{"Yes.", "This version works.", "I looked: This version of Antigravity is no longer supported."} {
		if MayRefuse(answer) {
			t.Errorf("%q was held back", answer)
		}
	}
}

func TestFromText(t *testing.T) {
	detail := []json.RawMessage{json.RawMessage(`{"reason":"QUOTA_EXHAUSTED"}`)}
	for _, test := range []struct {
		status  int
		text    string
		details []json.RawMessage
		kind    Kind
		known   bool
	}{
		{0, "RESOURCE_EXHAUSTED (code 429): You have exhausted your capacity on this model.", nil, KindQuota, true},
		{0, "RESOURCE_EXHAUSTED", nil, KindUnexplained, true},
		{0, "HTTP/1.1 401 Unauthorized", nil, KindUnauthenticated, true},
		{0, "status=(404", nil, KindNotFound, true},
		{0, "the cloud said 503", nil, KindUnavailable, true},
		{0, "there is no capacity for this model", nil, KindCapacity, true},
		{429, "Too many requests", nil, KindRate, true},
		{429, "Too many requests", detail, KindQuota, true},
		{0, `stream failed: {"error":{"code":429,"details":[{"reason":"QUOTA_EXHAUSTED"}]}} (again)`, nil, KindQuota, true},
		{0, "This version of Antigravity is no longer supported.", nil, KindVersion, true},
		{403, "Your current version of Antigravity is out of date.", nil, KindVersion, true},
		{0, "no longer supported: this client version", nil, KindVersion, true},
		{0, "unsupported client version", nil, KindVersion, true},
		{0, "conversions are not supported, code 400", nil, KindBadRequest, true},
		{0, "the agent stopped after 404 steps", nil, KindOther, false},
		{0, "", nil, KindOther, false},
	} {
		d, known := FromText(test.status, test.text, test.details, time.Time{})
		if d.Kind != test.kind || known != test.known {
			t.Errorf("%d %q: %s, known %t, want %s, %t", test.status, test.text, d.Kind, known, test.kind, test.known)
		}
	}
}
