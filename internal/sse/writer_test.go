package sse_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee/internal/sse"
)

func TestWriter(t *testing.T) {
	for name, test := range map[string]struct {
		name, data, want string
		crlf             bool
	}{
		"data only":           {data: `{"a":1}`, want: "data: {\"a\":1}\n\n"},
		"named":               {name: "ping", data: "{}", want: "event: ping\ndata: {}\n\n"},
		"CRLF":                {name: "ping", data: "a\nb", crlf: true, want: "event: ping\r\ndata: a\r\ndata: b\r\n\r\n"},
		"several lines":       {data: "a\n\nb\n", want: "data: a\ndata: \ndata: b\ndata: \n\n"},
		"other line ends":     {data: "a\r\nb\rc\n\rd", want: "data: a\ndata: b\ndata: c\ndata: \ndata: d\n\n"},
		"empty":               {want: "data: \n\n"},
		"leading space stays": {data: " a", want: "data:  a\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out countingWriter
			w := sse.NewWriter(&out)
			w.CRLF = test.crlf
			if err := w.Event(test.name, []byte(test.data)); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want || out.writes != 1 {
				t.Errorf("got %q in %d writes, want %q in one", out.String(), out.writes, test.want)
			}
		})
	}
}

func TestWriterComment(t *testing.T) {
	var out countingWriter
	w := sse.NewWriter(&out)
	if err := w.Comment("still\nthere"); err != nil {
		t.Fatal(err)
	}
	if want := ": still\n: there\n\n"; out.String() != want || out.writes != 1 {
		t.Errorf("got %q in %d writes, want %q", out.String(), out.writes, want)
	}
}

func TestWriterRefusesNamesWithLineEnds(t *testing.T) {
	for _, name := range []string{"a\nb", "a\r"} {
		if err := sse.NewWriter(io.Discard).Event(name, nil); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}

func TestWriterReturnsErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	w := sse.NewWriter(writerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := w.Event("", nil); err != broken {
		t.Errorf("got %v", err)
	}
}

func TestWriterFlushes(t *testing.T) {
	type wrapper struct{ http.ResponseWriter }
	type unwrapper struct {
		wrapper
		unwrap
	}
	recorder := httptest.NewRecorder()
	for name, dst := range map[string]io.Writer{
		"response": recorder,
		"wrapped":  unwrapper{wrapper{recorder}, unwrap{recorder}},
	} {
		recorder.Flushed = false
		if err := sse.NewWriter(dst).Event("", []byte("x")); err != nil || !recorder.Flushed {
			t.Errorf("%s: flushed %v, %v", name, recorder.Flushed, err)
		}
	}
}

type unwrap struct{ inner http.ResponseWriter }

func (u unwrap) Unwrap() http.ResponseWriter { return u.inner }

func TestWriterDoesNotAllocatePerEvent(t *testing.T) {
	w := sse.NewWriter(io.Discard)
	data := []byte(strings.Repeat("x", 1000))
	if allocs := testing.AllocsPerRun(1000, func() { _ = w.Event("delta", data) }); allocs != 0 {
		t.Errorf("%v allocations per event", allocs)
	}
}

type countingWriter struct {
	bytes.Buffer
	writes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.Buffer.Write(p)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
