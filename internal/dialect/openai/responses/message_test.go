package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/sse"
)

// What is left of a message is the body without what is about the socket, and everything else as it
// was.
func TestMessageBecomesABody(t *testing.T) {
	for _, test := range []struct{ message, body, stream string }{
		{`{"type":"response.create","input":"hi","model":"m"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"input":"hi","model":"m","type":"response.create"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"input":"hi" , "type" : "response.create" , "model":"m"}`, `{"input":"hi","model":"m"}`, ""},
		{`{"type":"response.create"}`, `{}`, ""},
		{`{"stream_id":"a","input":{"type":"x","stream_id":"y"},"stream":true,"background":false,"type":"response.create"}`, `{"input":{"type":"x","stream_id":"y"}}`, "a"},
		{"\n{ \"type\": \"response.create\",\n \"input\": \"a,}\",\n \"stream\": null }\n", `{"input":"a,}"}`, ""},
		{`{"input":"\"type\":","generate":true,"type":"response.create"}`, `{"input":"\"type\":"}`, ""},
	} {
		r, err := DecodeMessage([]byte(test.message))
		if err != nil {
			t.Errorf("%s: %v", test.message, err)
			continue
		}
		var body bytes.Buffer
		if err := json.Compact(&body, r.Body); err != nil || body.String() != test.body || r.Stream != test.stream || r.Warm || len(r.Notes) != 0 {
			t.Errorf("%s\nbecomes %s of %q (%v, %v)", test.message, r.Body, r.Stream, r.Warm, err)
		}
		if len(r.Body) != len(test.message) {
			t.Errorf("%s: its length is not what it was", test.message)
		}
	}
}

func TestMessageSaysHowItIsMeant(t *testing.T) {
	r, err := DecodeMessage([]byte(`{"type":"response.create","generate":false,"stream":false,"background":true}`))
	if err != nil || !r.Warm || fmt.Sprint(r.Notes) != fmt.Sprint([]perigee.Note{
		{Action: perigee.NoteDropped, Subject: "background"}, {Action: perigee.NoteDropped, Subject: "stream"},
	}) {
		t.Errorf("%+v (%v)", r, err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"type":"response.create","input":"hi"}`, `{"stream_id":"a","type":"response.create"}`, `{}`, `[]`, `{"type":`, `{"type":"response.create","stream":7}`,
		` { "type" : "response.create" , "a" : [ 1 , { "type" : 2 } ] , "generate" : false } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		before := bytes.Clone(message)
		r, err := DecodeMessage(message)
		if err != nil {
			return
		}
		var was, is map[string]json.RawMessage
		if err := json.Unmarshal(before, &was); err != nil {
			t.Fatalf("%q was taken: %v", before, err)
		}
		if err := json.Unmarshal(r.Body, &is); err != nil {
			t.Fatalf("%q becomes %q: %v", before, r.Body, err)
		}
		for _, name := range []string{"type", "stream_id", "generate", "stream", "background"} {
			delete(was, name)
		}
		for name, value := range was {
			if !bytes.Equal(value, is[name]) {
				t.Fatalf("%q becomes %q: %q is not what it was", before, r.Body, name)
			}
		}
	})
}

// Messages are cut apart where they were put together, and say which stream they belong to.
func TestMessagesOfAStream(t *testing.T) {
	req, _ := decode(t, `{"input":"hi","store":false}`)
	for _, stream := range []string{"", "s.1"} {
		events, messages := req.NewStream("1", time.Unix(1, 0), nil), req.NewMessages("1", time.Unix(1, 0), nil, stream)
		var wire, cut []byte
		for _, ev := range []perigee.Event{{Kind: perigee.EventStart, Model: "m"}, {Kind: perigee.EventText, Text: "a\n\ndata: b"}, finishEvent("MALFORMED_RESPONSE")} {
			wire, cut = events.Encode(wire, &ev), messages.Encode(cut, &ev)
		}
		if len(messages.Idle(nil)) != 0 || messages.Failed() {
			t.Error("a socket has signs of life of its own, and the answer has not failed yet")
		}
		wire, cut = events.End(wire), messages.End(cut)
		if !messages.Failed() {
			t.Error("the answer has failed")
		}
		r := sse.NewReader(bytes.NewReader(wire))
		for len(cut) > 0 {
			var message []byte
			message, cut = CutMessage(cut)
			event, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			want := string(event.Data)
			if stream != "" {
				want = strings.TrimSuffix(want, "}") + `,"stream_id":"s.1"}`
			}
			if string(message) != want {
				t.Errorf("got  %s\nwant %s", message, want)
			}
		}
		if _, err := r.Next(); err == nil {
			t.Error("there are more events than messages")
		}
	}
}

func TestErrorMessages(t *testing.T) {
	for want, e := range map[string]*perigee.Error{
		`{"type":"error","status":400,"error":{"message":"this socket has been open for 60 minutes; open another one","type":"invalid_request_error","param":null,"code":"websocket_connection_limit_reached"},"headers":{"a":"<b>","x-perigee-class":"invalid"},"stream_id":"s"}`: ErrSocketTooOld,
		`{"type":"error","status":400,"error":{"message":"no","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"},"headers":{"a":"<b>","x-perigee-class":"invalid"},"stream_id":"s"}`:                                                                             perigee.Errorf(perigee.ClassRateLimited, "no"),
	} {
		if got := string(EncodeErrorMessage(400, e, map[string]string{"x-perigee-class": "invalid", "a": "<b>"}, "s")); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := string(EncodeErrorMessage(404, perigee.Errorf(perigee.ClassNotFound, "no"), nil, "")); got != `{"type":"error","status":404,"error":{"message":"no","type":"invalid_request_error","param":null,"code":"not_found"}}` {
		t.Error(got)
	}
}
