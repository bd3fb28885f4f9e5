package responsesapi

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee"
)

// What is remembered for all sockets is bounded; the oldest is forgotten first.
func TestRecentAnswersAreBounded(t *testing.T) {
	answer := func(id string, size int) *perigee.StoredResponse {
		return &perigee.StoredResponse{ID: id, Input: json.RawMessage(strings.Repeat(" ", size))}
	}
	r := &recentAnswers{limit: 100}
	a, b := &Socket{}, &Socket{}
	has := func(want string) {
		t.Helper()
		got := ""
		for _, s := range []*Socket{a, b} {
			for _, id := range []string{"1", "2", "3", "4", "5"} {
				if r.find(s, id) != nil {
					got += id
				}
			}
			got += " "
		}
		if got != want {
			t.Errorf("remembers %q, want %q", got, want)
		}
	}
	r.put(a, "", answer("1", 40))
	r.put(b, "", answer("2", 40))
	r.put(a, "x", answer("3", 20))
	has("13 2 ")
	r.put(a, "", answer("4", 50)) // in place of 1
	has("34  ")
	r.put(b, "", answer("5", 101)) // too large to be remembered at all
	has("34  ")
	r.forget(a)
	if r.bytes != 0 || r.order.Len() != 0 || len(a.kept)+len(b.kept) != 0 {
		t.Errorf("%d bytes are left", r.bytes)
	}
	r.put(a, "", answer("1", 40))
	r.put(b, "", answer("2", 40))
	r.forget(a)
	has(" 2 ")
	if r.bytes != 40 {
		t.Errorf("%d bytes are left", r.bytes)
	}
}
