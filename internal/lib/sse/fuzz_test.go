package sse_test

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"perigee/internal/lib/sse"
)

// FuzzReader checks that a stream means the same however it is cut, and that what was read can be
// written and read again.
func FuzzReader(f *testing.F) {
	for _, stream := range []string{
		"data: a\n\ndata: b\r\n\r\n", ": c\rdata\rdata: x\r\revent: e\nid: 1\ndata:y\n", "\ufeffdata: 🚀\n\n\n",
		"event\nfoo:bar\n\r\n\rdata",
	} {
		f.Add([]byte(stream), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cuts uint64) {
		whole, err := readAll(bytes.NewReader(stream))
		if err != io.EOF {
			t.Fatal(err)
		}
		if want := simpleRead(string(stream)); !reflect.DeepEqual(whole, want) {
			t.Fatalf("got %q, want %q", whole, want)
		}
		pieces, err := readAll(&chunkReader{rest: stream, random: cuts})
		if !reflect.DeepEqual(pieces, whole) || err != io.EOF {
			t.Fatalf("in pieces: %q, %v\nwhole: %q", pieces, err, whole)
		}
		for _, src := range []io.Reader{bytes.NewReader(stream), &chunkReader{rest: stream, random: cuts}} {
			if raw, events := readRaw(t, src); string(raw) != string(stream) || !reflect.DeepEqual(events, whole) {
				t.Fatalf("raw: %q with %q, want %q with %q", raw, events, stream, whole)
			}
		}
		for _, crlf := range []bool{false, true} {
			var out []byte
			var want []event
			for _, e := range whole {
				out = sse.AppendEvent(out, []byte(e.Data), crlf)
				want = append(want, event{Data: e.Data})
			}
			if got, err := readAll(bytes.NewReader(out)); !reflect.DeepEqual(got, want) || err != io.EOF {
				t.Fatalf("written and read: %q, %v; want %q", got, err, want)
			}
		}
	})
}

// readRaw returns the bytes of all events, and the events with data.
func readRaw(t *testing.T, src io.Reader) (raw []byte, events []event) {
	r := sse.NewReader(src)
	r.Raw = true
	for {
		e, err := r.Next()
		if err == io.EOF {
			return raw, events
		}
		if err != nil || len(r.Block()) == 0 {
			t.Fatalf("%q, %v", r.Block(), err)
		}
		raw = append(raw, r.Block()...)
		if e.Data != nil {
			events = append(events, event{e.Name, string(e.Data)})
		}
	}
}

// simpleRead is the definition of event streams written down as plainly as possible.
func simpleRead(stream string) (events []event) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	var e event
	var data []string
	for _, line := range append(strings.Split(stream, "\n"), "") {
		if line == "" {
			if data != nil {
				e.Data = strings.Join(data, "\n")
				events = append(events, e)
			}
			e, data = event{}, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			e.Name = value
		}
	}
	return events
}

// A chunkReader returns pieces of random sizes, most of them short.
type chunkReader struct {
	rest   []byte
	random uint64
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	r.random = r.random*6364136223846793005 + 1442695040888963407
	n := copy(p, r.rest[:min(len(r.rest), int(r.random>>61))])
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000, 1 << 20, 32 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			one := []byte("event: delta\ndata: " + strings.Repeat("x", size) + "\n\n")
			n := 0
			r := sse.NewReader(readerFunc(func(p []byte) (int, error) {
				m := copy(p, one[n:])
				n = (n + m) % len(one)
				return m, nil
			}))
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReaderManyEvents reads events that arrive many at a time.
func BenchmarkReaderManyEvents(b *testing.B) {
	for name, one := range map[string]string{"LF": "event: delta\ndata: {\"text\":\"hello\"}\n\n",
		"CRLF": "data: {\"text\":\"hello\"}\r\n\r\n", "CR": "data: {\"text\":\"hello\"}\r\r"} {
		b.Run(name, func(b *testing.B) {
			stream := []byte(strings.Repeat(one, 10_000))
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r := sse.NewReader(bytes.NewReader(stream))
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	data := []byte(`{"choices":[{"delta":{"content":"` + strings.Repeat("x", 200) + `"}}]}`)
	var buf []byte
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		buf = sse.AppendEvent(buf[:0], data, false)
	}
}
