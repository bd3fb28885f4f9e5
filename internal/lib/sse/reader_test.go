package sse_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"perigee/internal/lib/sse"
)

type event struct{ Name, Data string }

// readAll returns all events and the error at the end.
func readAll(src io.Reader) (events []event, err error) {
	r := sse.NewReader(src)
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Name, string(e.Data)})
	}
}

func TestReader(t *testing.T) {
	data := func(texts ...string) (events []event) {
		for _, text := range texts {
			events = append(events, event{Data: text})
		}
		return events
	}
	for name, test := range map[string]struct {
		stream string
		want   []event
	}{
		"nothing":                     {stream: ""},
		"only blank lines":            {stream: "\n\r\n\r\r\n\n"},
		"LF":                          {stream: "data: a\n\ndata: b\n\n", want: data("a", "b")},
		"CRLF":                        {stream: "data: a\r\n\r\ndata: b\r\n\r\n", want: data("a", "b")},
		"CR":                          {stream: "data: a\r\rdata: b\r\r", want: data("a", "b")},
		"mixed line ends":             {stream: "data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\r", want: data("a\nb\nc", "d")},
		"LF CR is two line ends":      {stream: "data: a\n\rdata: b\n\n", want: data("a", "b")},
		"no space":                    {stream: "data:a\n\n", want: data("a")},
		"one space of two is removed": {stream: "data:  a \n\n", want: data(" a ")},
		"a tab stays":                 {stream: "data:\ta\n\n", want: data("\ta")},
		"empty data":                  {stream: "data:\n\ndata: \n\ndata\n\n", want: data("", "", "")},
		"empty data lines are joined": {stream: "data\ndata\ndata:x\ndata\n\n", want: data("\n\nx\n")},
		"colons in data":              {stream: "data: a: b:c\n\n", want: data("a: b:c")},
		"name": {stream: "event: ping\nid: 7\ndata: {}\n\ndata: x\n\n",
			want: []event{{"ping", "{}"}, {"", "x"}}},
		"last name counts":  {stream: "event: a\nevent: b\ndata: x\n\n", want: []event{{"b", "x"}}},
		"name after data":   {stream: "data: x\nevent: a\n\n", want: []event{{"a", "x"}}},
		"id with NUL":       {stream: "id: a\x00b\ndata: x\n\n", want: data("x")},
		"name without data": {stream: "event: a\n\ndata: x\n\n", want: data("x")},
		"comments":          {stream: ": hello\n\n:\ndata: a\n: in between\ndata: b\n\n: bye", want: data("a\nb")},
		"unknown fields": {stream: "retry: 10\nfoo: bar\nfoo\nDATA: x\n data: y\ndata : z\ndata: a\n\n",
			want: data("a")},
		"byte order mark":              {stream: "\ufeffdata: a\n\n", want: data("a")},
		"second byte order mark":       {stream: "\ufeff\ufeffdata: a\n\ndata: b\n\n", want: data("b")},
		"later byte order mark":        {stream: "data: a\n\n\ufeffdata: b\n\n", want: data("a")},
		"byte order mark and no end":   {stream: "\ufeffdata: a", want: data("a")},
		"no blank line at the end":     {stream: "data: a\n\ndata: b\n", want: data("a", "b")},
		"no line end at the end":       {stream: "data: a\n\ndata: b", want: data("a", "b")},
		"CR at the end":                {stream: "data: a\r", want: data("a")},
		"name without data at the end": {stream: "data: a\n\nevent: b", want: data("a")},
		"characters of several bytes":  {stream: "data: Größe ✓ 🚀\ndata: \xff\xfe\n\n", want: data("Größe ✓ 🚀\n\xff\xfe")},
		"a NUL":                        {stream: "data: \x00\n\n", want: data("\x00")},
		"vertical tab is no line end":  {stream: "data: a\vb\fc\u2028d\n\n", want: data("a\vb\fc\u2028d")},
		"line longer than the buffer": {stream: "data: " + strings.Repeat("x", 10_000) + "\n\ndata: y\n\n",
			want: data(strings.Repeat("x", 10_000), "y")},
		"event longer than the buffer": {stream: strings.Repeat("data: 0123456789\n", 1000) + "\n",
			want: data(strings.TrimSuffix(strings.Repeat("0123456789\n", 1000), "\n"))},
		"short lines longer together":   {stream: strings.Repeat("data\n", 5000) + "\n", want: data(strings.Repeat("\n", 4999))},
		"many comments inside an event": {stream: "data: a\n" + strings.Repeat(":\n", 5000) + "data: b\n\n", want: data("a\nb")},
	} {
		t.Run(name, func(t *testing.T) {
			for how, source := range map[string]func(io.Reader) io.Reader{
				"whole":         func(r io.Reader) io.Reader { return r },
				"byte by byte":  iotest.OneByteReader,
				"by halves":     iotest.HalfReader,
				"EOF with data": iotest.DataErrReader,
			} {
				got, err := readAll(source(strings.NewReader(test.stream)))
				if !reflect.DeepEqual(got, test.want) || err != io.EOF {
					t.Errorf("%s: got %.200q, %v\nwant %.200q, EOF", how, got, err, test.want)
				}
				raw, got := readRaw(t, source(strings.NewReader(test.stream)))
				if !reflect.DeepEqual(got, test.want) || string(raw) != test.stream {
					t.Errorf("%s, raw: got %.200q in %.200q\nwant %.200q", how, got, raw, test.want)
				}
			}
		})
	}
}

// With Raw, a comment is returned as soon as its blank line has arrived, and events end with their
// line ends.
func TestReaderReturnsRawBlocks(t *testing.T) {
	const stream = ": hello\n\nevent: a\r\ndata: b\r\n\r\n\nid: 1\ndata: c\rdata: d\r\r: bye"
	r := sse.NewReader(strings.NewReader(stream))
	r.Raw = true
	for _, want := range []string{": hello\n\n", "event: a\r\ndata: b\r\n\r\n", "\n", "id: 1\ndata: c\rdata: d\r\r", ": bye"} {
		if _, err := r.Next(); string(r.Block()) != want || err != nil {
			t.Errorf("got %q, %v; want %q", r.Block(), err, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got %q, %v", r.Block(), err)
	}
}

func TestReaderDropsEventCutOffByAnError(t *testing.T) {
	broken := errors.New("connection reset")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n\ndata: c\n"), iotest.ErrReader(broken)))
	if want := []event{{Data: "a"}, {Data: "b"}}; !reflect.DeepEqual(got, want) || err != broken {
		t.Errorf("got %q, %v; want %q, %v", got, err, want, broken)
	}
}

func TestReaderRepeatsItsError(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: a"))
	if e, err := r.Next(); string(e.Data) != "a" || err != nil {
		t.Fatalf("got %q, %v", e.Data, err)
	}
	for range 3 {
		if e, err := r.Next(); e.Data != nil || err != io.EOF {
			t.Fatalf("got %q, %v; want EOF", e.Data, err)
		}
	}
}

func TestReaderGivesUpOnAReaderWithoutProgress(t *testing.T) {
	if _, err := readAll(readerFunc(func([]byte) (int, error) { return 0, nil })); err != io.ErrNoProgress {
		t.Errorf("got %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestReaderDeliversAtOnce fails the test whenever the reader asks for bytes it does not need.
func TestReaderDeliversAtOnce(t *testing.T) {
	chunks := []string{"data: x\n\n", "data: x\r\n\r", "\ndata: x\r\r", "data: x\n\n", "\r\n: comment\r\ndata: x\r", "\n\r"}
	allowed := false
	r := sse.NewReader(readerFunc(func(p []byte) (int, error) {
		if !allowed {
			t.Fatal("read although the event was complete")
		}
		n := copy(p, chunks[0])
		chunks = chunks[1:]
		// The fifth chunk has no event of its own, so the sixth is needed as well.
		allowed = len(chunks) == 1
		return n, nil
	}))
	for len(chunks) > 0 {
		allowed = true
		if e, err := r.Next(); string(e.Data) != "x" || err != nil {
			t.Fatalf("got %q, %v with %d chunks left", e.Data, err, len(chunks))
		}
	}
}

func TestReaderLimitsLines(t *testing.T) {
	line := append([]byte("data: "), bytes.Repeat([]byte("x"), sse.MaxLine-6)...)
	r := sse.NewReader(io.MultiReader(bytes.NewReader(line), strings.NewReader("\n\ndata: y\n\n")))
	if e, err := r.Next(); len(e.Data) != sse.MaxLine-6 || err != nil {
		t.Errorf("line of MaxLine: got %d bytes, %v", len(e.Data), err)
	}
	if e, err := r.Next(); string(e.Data) != "y" || err != nil {
		t.Errorf("after it: got %q, %v", e.Data, err)
	}
	for _, rest := range []string{"x\n\ndata: y\n\n", "x\r\r", "x"} {
		r = sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\n"), bytes.NewReader(line), strings.NewReader(rest)))
		if e, err := r.Next(); string(e.Data) != "a" || err != nil {
			t.Errorf("before a longer line: got %q, %v", e.Data, err)
		}
		for range 2 {
			if e, err := r.Next(); e.Data != nil || !errors.Is(err, sse.ErrTooLong) {
				t.Errorf("longer line: got %d bytes, %v", len(e.Data), err)
			}
		}
	}
}

func TestReaderLimitsEvents(t *testing.T) {
	line := []byte("data: " + strings.Repeat("x", 1<<20) + "\n")
	n := 0
	_, err := readAll(readerFunc(func(p []byte) (int, error) {
		read := 0
		for read < len(p) {
			m := copy(p[read:], line[n%len(line):])
			n += m
			read += m
		}
		return read, nil
	}))
	if !errors.Is(err, sse.ErrTooLong) || n > 3*sse.MaxLine {
		t.Errorf("got %v after %d bytes", err, n)
	}
}

func TestReaderDoesNotAllocatePerEvent(t *testing.T) {
	stream := []byte("event: message_start\ndata: {\"text\":\"Größe\"}\n\n: keep alive\n\nevent: delta\r\ndata: a\r\ndata: b\r\n\r\n")
	n := 0
	r := sse.NewReader(readerFunc(func(p []byte) (int, error) {
		m := copy(p[:min(len(p), 100)], stream[n%len(stream):])
		n += m
		return m, nil
	}))
	next := func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		next()
	}
	if allocs := testing.AllocsPerRun(10_000, next); allocs != 0 {
		t.Errorf("%v allocations per event", allocs)
	}
}
