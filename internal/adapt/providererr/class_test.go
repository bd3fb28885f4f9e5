package providererr

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"perigee"
)

// The classes of errors of the official API: by status where nothing is explained, and by what its
// documentation has the messages and details say.
func TestStatusError(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		class  perigee.Class
		answer int
	}{
		{400, ``, perigee.ClassInvalid, 400},
		{401, ``, perigee.ClassUnauthenticated, 401},
		{402, ``, perigee.ClassForbidden, 402},
		{403, ``, perigee.ClassForbidden, 403},
		{404, ``, perigee.ClassNotFound, 404},
		{404, `<html><title>Error 404 (Not Found)!!1</title></html>`, perigee.ClassNotFound, 404}, // a model with a colon in its name
		{405, ``, perigee.ClassUnavailable, 0},
		{408, ``, perigee.ClassUnavailable, 0},
		{409, ``, perigee.ClassInvalid, 409},
		{410, ``, perigee.ClassNotFound, 410},
		{413, ``, perigee.ClassInvalid, 413},
		{429, ``, perigee.ClassRateLimited, 429},
		{499, `{"error":{"code":499,"status":"CANCELLED"}}`, perigee.ClassUnavailable, 499},
		{500, ``, perigee.ClassUnavailable, 500},
		{501, ``, perigee.ClassUnimplemented, 501},
		{503, ``, perigee.ClassUnavailable, 503},
		{504, ``, perigee.ClassUnavailable, 504},
		{529, ``, perigee.ClassCapacity, 529},
		{0, `{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`, perigee.ClassRateLimited, 429},
		{400, `{"error":{"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, perigee.ClassForbidden, 400},
		{400, `{"error":"invalid_grant"}`, perigee.ClassInvalid, 400},
		{503, `{"error":{"message":"The model is overloaded. Please try again later."}}`, perigee.ClassCapacity, 503},
		{503, `{"error":{"message":"This model is currently experiencing high demand."}}`, perigee.ClassCapacity, 503},
		{429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`, perigee.ClassRateLimited, 429},
		{429, `{"error":{"message":"You exceeded your current quota.","details":[{"retryDelay":"34s"}]}}`, perigee.ClassRateLimited, 429},
		{429, `{"error":{"message":"You exceeded your current quota.","details":[{"retryDelay":"34s"},
			{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}`, perigee.ClassExhausted, 429},
	} {
		if e := StatusError(c.status, []byte(c.body)); e.Class != c.class || e.Status != c.answer {
			t.Errorf("%d %s: %s with status %d, want %s with %d", c.status, c.body, e.Class, e.Status, c.class, c.answer)
		}
	}
}

// The words of the provider reach its clients unchanged, although rules are matched with the error
// inside of them.
func TestStatusErrorKeepsWords(t *testing.T) {
	const inner = ` {"error":{"code":429,"message":"m","details":[{"retryDelay":"9s"}]}} `
	const body = `{"error":{"code":429,"message":%q,"details":[{"n": 1.0},7,{"a":"ya29.token"}]}}`
	e := StatusError(429, fmt.Appendf(nil, body, inner))
	want := []json.RawMessage{[]byte(`{"n": 1.0}`), []byte(`7`), []byte(`{"a":"ya29.token"}`)}
	if e.Message != inner || !reflect.DeepEqual(e.Details, want) || e.Retry != 9*time.Second {
		t.Errorf("%q, %s, %s", e.Message, e.Details, e.Retry)
	}
	if e := StatusError(500, []byte(`{"error":{"message":"cut`)); e.Message != "" || e.Details != nil {
		t.Errorf("%q, %s of a text that is not JSON", e.Message, e.Details)
	}
}
