package responses

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// allocated is how many bytes f allocates, from the first to the last.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// tell gives an encoder an answer of many events of one kind.
func tell(kind perigee.EventKind, text string, n int, take func(ev *perigee.Event)) {
	take(&perigee.Event{Kind: perigee.EventStart, Model: "gemini-3-flash"})
	ev := &perigee.Event{Kind: kind, Text: text}
	for range n {
		take(ev)
	}
	if kind == perigee.EventThinking {
		take(&perigee.Event{Kind: perigee.EventSignature, Signature: "c2VhbA=="})
	}
	take(&perigee.Event{Kind: perigee.EventFinish, Finish: &perigee.Finish{Reason: "STOP"}})
}

// All events and the response at the end repeat the text. They are written from the one copy that
// is kept of it: allocations are counted from the beginning, so whatever is garbage meanwhile
// counts, too.
func TestStreamKeepsTextOnce(t *testing.T) {
	perigeetest.Slow(t)
	perigeetest.Unraced(t)
	const size = 16 << 20
	for _, tt := range []struct {
		name, options string
		kind          perigee.EventKind
		text          string
		times         float64 // of the text in JSON
	}{
		{"text", `"store":false`, perigee.EventText, strings.Repeat("a", 1000) + "\n", 1.3},
		{"small pieces of text", `"store":false`, perigee.EventText, "a", 1.3},
		{"one large piece", `"store":false`, perigee.EventText, strings.Repeat("a", size), 1.3},
		{"text, stored", `"store":true`, perigee.EventText, strings.Repeat("a", 1000) + "\n", 3.3},
		{"thinking", `"store":false,"reasoning":{"summary":"auto"}`, perigee.EventThinking, strings.Repeat("a", 1000), 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","stream":true,"input":"hi",` + tt.options + `}`)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			n := size / len(tt.text)
			escaped := n * (len(tt.text) + strings.Count(tt.text, "\n"))
			buf := make([]byte, 0, 1<<20)
			written := 0
			used := allocated(func() {
				s := req.NewStream("call-1", now(), now)
				s.SetFlush(func(p []byte) []byte { written += len(p); return p[:0] })
				s.Keep = func() bool { response, output := s.Stored(); return len(response) > 0 && len(output) > 0 }
				tell(tt.kind, tt.text, n, func(ev *perigee.Event) {
					written += len(s.Encode(buf[:0], ev))
				})
				written += len(s.End(buf[:0]))
			})
			if written < 4*escaped {
				t.Errorf("%d bytes were written for a text of %d: events are missing", written, escaped)
			}
			if times := float64(used) / float64(escaped); times > tt.times {
				t.Errorf("%d bytes allocated, %.1f times the text; at most %.1f", used, times, tt.times)
			}
		})
	}
}

// What is handed on in pieces is what a stream without pieces appends, in both framings.
func TestStreamInPieces(t *testing.T) {
	for _, options := range []string{`"store":false,"reasoning":{"summary":"auto"}`, `"store":true`} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","stream":true,"input":"hi",` + options + `}`)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, socket := range []bool{false, true} {
			make := func() *Stream {
				if socket {
					return req.NewMessages("call-1", now(), now, "s1")
				}
				return req.NewStream("call-1", now(), now)
			}
			whole, pieces := make(), make()
			var want, got []byte
			most := 0
			pieces.SetFlush(func(p []byte) []byte {
				got, most = append(got, p...), max(most, len(p))
				return p[:0]
			})
			encode := func(ev *perigee.Event) {
				want = whole.Encode(want, ev)
				got = append(got, pieces.Encode(nil, ev)...)
			}
			long := strings.Repeat("ä\"\n\x01\U0001F600", 60_000)
			tell(perigee.EventThinking, long[:len(long)/2], 2, encode)
			tell(perigee.EventText, long, 2, encode)
			encode(&perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c", Name: "f", Args: []byte(fmt.Sprintf("{%q:%q}", "a", long))}})
			encode(&perigee.Event{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: strings.Repeat("AAAA", 60_000)}})
			want = whole.End(want)
			got = append(got, pieces.End(nil)...)
			if !bytes.Equal(got, want) {
				t.Errorf("socket %v, %s: %d bytes (%x) in pieces, %d (%x) without", socket, options, len(got), crc32.ChecksumIEEE(got), len(want), crc32.ChecksumIEEE(want))
			}
			if !socket && most > 8*rawjson.FlushSize {
				t.Errorf("a piece has %d bytes", most)
			}
		}
	}
}

// An answer in one piece costs its text and the response.
func TestCollectorMemory(t *testing.T) {
	perigeetest.Unraced(t)
	const size = 16 << 20
	for _, text := range []string{"a", strings.Repeat("a", 1000)} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","input":"hi","store":false}`)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		used := allocated(func() {
			c := req.NewCollector("call-1", now(), now)
			tell(perigee.EventText, text, size/len(text), c.Add)
			if got := c.Bytes(); len(got) < size {
				t.Errorf("%d bytes", len(got))
			}
		})
		if times := float64(used) / size; times > 2.3 {
			t.Errorf("%d bytes allocated, %.1f times the text", used, times)
		}
	}
}

// Millions of small calls are kept as text, without anything beside it for each of them.
func TestManyCallsAreKeptAsText(t *testing.T) {
	req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","stream":true,"input":"hi","store":false}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := req.NewStream("call-1", now(), now)
	buf := make([]byte, 0, 1<<16)
	ev := &perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{ID: "c", Name: "f"}}
	for range 20_000 {
		s.Encode(buf[:0], ev)
	}
	if list := s.output.all(); len(list.pieces) > 50 || list.size < 20_000*80 {
		t.Errorf("%d pieces for %d bytes", len(list.pieces), list.size)
	}
}
