package httpapi

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/dialect/openai"
)

// A stream that is written into memory of an earlier one is the same as one that is not, whatever the writer does with
// the buffers that it gets.
func TestResponsesStreamIsTheSameInUsedMemory(t *testing.T) {
	stream := func() *openai.ResponsesStream {
		body := `{"input":"hi","store":false,"instructions":"` + strings.Repeat("Be brief. ", 5000) + `"}`
		req, err := openai.DecodeResponses(perigee.Origin{Body: []byte(body)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return req.NewStream("c", time.Unix(1, 0), func() time.Time { return time.Unix(2, 0) })
	}
	events := []perigee.Event{
		{Kind: perigee.EventStart, Model: "m"}, {Kind: perigee.EventText, Text: "one"}, {Kind: perigee.EventText, Text: "two"},
		{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}},
	}
	plain, want := stream(), []byte(nil)
	for i := range events {
		want = plain.Encode(want, &events[i])
	}
	want = plain.End(want)

	writers := map[string]func(buf []byte) (rest []byte, sent []byte){
		"sends at once":            func(buf []byte) (rest, sent []byte) { return buf[:0], buf },
		"sends and lets go":        func(buf []byte) (rest, sent []byte) { return nil, buf },
		"gathers":                  func(buf []byte) (rest, sent []byte) { return buf, nil },
		"has room for little only": func(buf []byte) (rest, sent []byte) { return make([]byte, 0, 8), buf },
	}
	for name, write := range writers {
		for range 3 { // the second one gets the memory of the first
			var got, buf, sent []byte
			k := newRoomyStream(stream())
			for i := range events {
				buf, sent = write(k.Encode(buf, &events[i]))
				got = append(got, sent...)
			}
			got = append(got, k.End(buf)...)
			k.forget()
			if !bytes.Equal(got, want) {
				t.Errorf("a writer that %s: got %d bytes, want %d", name, len(got), len(want))
			}
		}
	}
}
