package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"perigee"
)

// What is left of a message is the body without what is about the socket, and everything else as it was.
func TestSocketMessageBecomesABody(t *testing.T) {
	for _, test := range []struct{ message, body, stream string }{
		{`{"type":"response.create","input":"hi","model":"m"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"input":"hi","model":"m","type":"response.create"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"input":"hi" , "type" : "response.create" , "model":"m"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"type":"response.create"}`, `{}`, ""},
		{`{"stream_id":"a","input":{"type":"x","stream_id":"y"},"stream":true,"background":false,"type":"response.create"}`, `{"input":{"type":"x","stream_id":"y"}}`, "a"},
		{"\n{ \"type\": \"response.create\",\n \"input\": \"a,}\",\n \"stream\": null }\n", `{"input":"a,}"}`, ""},
		{`{"input":"\"type\":","generate":true,"type":"response.create"}`, `{"input":"\"type\":"}`, ""},
	} {
		r, err := decodeSocketRequest([]byte(test.message))
		if err != nil {
			t.Errorf("%s: %v", test.message, err)
			continue
		}
		var body bytes.Buffer
		if err := json.Compact(&body, r.body); err != nil || body.String() != test.body || r.stream != test.stream || r.warm || len(r.notes) != 0 {
			t.Errorf("%s\nbecomes %s of %q (%v, %v)", test.message, r.body, r.stream, r.warm, err)
		}
		if len(r.body) != len(test.message) {
			t.Errorf("%s: its length is not what it was", test.message)
		}
	}
}

func TestSocketMessageSaysHowItIsMeant(t *testing.T) {
	r, err := decodeSocketRequest([]byte(`{"type":"response.create","generate":false,"stream":false,"background":true}`))
	if err != nil || !r.warm || fmt.Sprint(r.notes) != fmt.Sprint([]perigee.Note{
		{Action: perigee.NoteDropped, Subject: "background"}, {Action: perigee.NoteDropped, Subject: "stream"},
	}) {
		t.Errorf("%+v (%v)", r, err)
	}
}

func FuzzSocketMessage(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.create","input":"hi"}`, `{"stream_id":"a","type":"response.create"}`, `{}`, `[]`, `{"type":`, `{"type":"response.create","stream":7}`,
		` { "type" : "response.create" , "a" : [ 1 , { "type" : 2 } ] , "generate" : false } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		before := bytes.Clone(message)
		r, err := decodeSocketRequest(message)
		if err != nil {
			return
		}
		var was, is map[string]json.RawMessage
		if err := json.Unmarshal(before, &was); err != nil {
			t.Fatalf("%q was taken: %v", before, err)
		}
		if err := json.Unmarshal(r.body, &is); err != nil {
			t.Fatalf("%q becomes %q: %v", before, r.body, err)
		}
		for _, name := range []string{"type", "stream_id", "generate", "stream", "background"} {
			delete(was, name)
		}
		for name, value := range was {
			if !bytes.Equal(value, is[name]) {
				t.Fatalf("%q becomes %q: %q is not what it was", before, r.body, name)
			}
		}
	})
}

// What is remembered for all sockets is bounded; the oldest is forgotten first.
func TestRecentAnswersAreBounded(t *testing.T) {
	answer := func(id string, size int) *perigee.StoredResponse {
		return &perigee.StoredResponse{ID: id, Input: json.RawMessage(strings.Repeat(" ", size))}
	}
	r := &recentAnswers{limit: 100}
	a, b := &socket{}, &socket{}
	has := func(want string) {
		t.Helper()
		got := ""
		for _, s := range []*socket{a, b} {
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
