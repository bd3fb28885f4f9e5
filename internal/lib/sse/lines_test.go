package sse_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"perigee/internal/lib/sse"
)

// readLines returns all lines, whether the next one was ready after each of them, and the error at
// the end.
func readLines(src io.Reader) (lines []string, ready []bool, err error) {
	r := sse.NewReader(src)
	r.Lines = true
	for {
		e, err := r.Next()
		if err != nil {
			return lines, ready, err
		}
		lines, ready = append(lines, string(e.Data)), append(ready, r.Ready())
	}
}

func TestReaderOfLines(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":             {"", nil},
		"only empty lines":    {"\n\r\n\n", nil},
		"lines":               {"{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}},
		"CRLF":                {"{}\r\n[]\r\n", []string{"{}", "[]"}},
		"empty lines between": {"\n1\n\n\n2\n\n", []string{"1", "2"}},
		"fields are data":     {"data: a\n: b\nevent: c\n", []string{"data: a", ": b", "event: c"}},
		"no end":              {"1\n2", []string{"1", "2"}},
		"byte order mark":     {"\ufeff1\n2\n", []string{"1", "2"}},
		"long":                {long + "\n1\n" + long, []string{long, "1", long}},
		"many":                {strings.Repeat("{}\n", 5000), slices.Repeat([]string{"{}"}, 5000)},
	} {
		for how, source := range map[string]func(io.Reader) io.Reader{
			"whole":         func(r io.Reader) io.Reader { return r },
			"byte by byte":  iotest.OneByteReader,
			"by halves":     iotest.HalfReader,
			"EOF with data": iotest.DataErrReader,
		} {
			got, _, err := readLines(source(strings.NewReader(test.stream)))
			if !slices.Equal(got, test.want) || err != io.EOF {
				t.Errorf("%s, %s: got %.200q, %v\nwant %.200q, EOF", name, how, got, err, test.want)
			}
		}
	}
}

// Ready is true only for a line that has arrived: an empty one is none.
func TestReaderOfLinesIsReady(t *testing.T) {
	_, ready, err := readLines(strings.NewReader("1\n2\n\n\n3\n\n"))
	if want := []bool{true, true, false}; !slices.Equal(ready, want) || err != io.EOF {
		t.Errorf("got %v, %v; want %v, EOF", ready, err, want)
	}
	_, ready, _ = readLines(iotest.OneByteReader(strings.NewReader("1\n2\n")))
	if want := []bool{false, false}; !slices.Equal(ready, want) {
		t.Errorf("byte by byte: got %v, want %v", ready, want)
	}
}

func TestReaderOfLinesDropsLineCutOffByAnError(t *testing.T) {
	broken := errors.New("connection reset")
	got, _, err := readLines(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(broken)))
	if !slices.Equal(got, []string{"1"}) || err != broken {
		t.Errorf("got %q, %v", got, err)
	}
}
