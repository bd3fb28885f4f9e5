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
	r.put(recentAnswer{a, "", answer("1", 40)}, nil)
	r.put(recentAnswer{b, "", answer("2", 40)}, nil)
	r.put(recentAnswer{a, "x", answer("3", 20)}, nil)
	has("13 2 ")
	r.put(recentAnswer{a, "", answer("4", 50)}, nil) // in place of 1
	has("34  ")
	r.put(recentAnswer{b, "", answer("5", 101)}, nil) // too large to be remembered at all
	has("34  ")
	r.forget(a)
	if r.bytes != 0 || len(r.list) != 0 {
		t.Errorf("%d bytes are left", r.bytes)
	}
	r.put(recentAnswer{a, "", answer("1", 40)}, nil)
	r.put(recentAnswer{b, "", answer("2", 40)}, nil)
	r.forget(a)
	has(" 2 ")
	if r.bytes != 40 {
		t.Errorf("%d bytes are left", r.bytes)
	}
}
