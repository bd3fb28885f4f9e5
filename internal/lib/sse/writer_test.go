package sse_test

import (
	"io"
	"strings"
	"testing"

	"perigee/internal/lib/sse"
)

func TestAppendEvent(t *testing.T) {
	for name, test := range map[string]struct {
		data, want string
		crlf       bool
	}{
		"data only":           {data: `{"a":1}`, want: "data: {\"a\":1}\n\n"},
		"CRLF":                {data: "a\nb", crlf: true, want: "data: a\r\ndata: b\r\n\r\n"},
		"several lines":       {data: "a\n\nb\n", want: "data: a\ndata: \ndata: b\ndata: \n\n"},
		"other line ends":     {data: "a\r\nb\rc\n\rd", want: "data: a\ndata: b\ndata: c\ndata: \ndata: d\n\n"},
		"empty":               {want: "data: \n\n"},
		"leading space stays": {data: " a", want: "data:  a\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := sse.AppendEvent([]byte("before "), []byte(test.data), test.crlf)
			if string(got) != "before "+test.want {
				t.Errorf("got %q, want %q behind what was there", got, test.want)
			}
		})
	}
}

func TestReadersSkipKeepAlives(t *testing.T) {
	got, err := readAll(strings.NewReader(sse.KeepAlive + "data: a\n\n" + sse.KeepAlive))
	if len(got) != 1 || got[0].Data != "a" || err != io.EOF {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAppendEventDoesNotAllocate(t *testing.T) {
	data := []byte(strings.Repeat("x", 1000))
	buf := make([]byte, 0, 2000)
	if allocs := testing.AllocsPerRun(1000, func() { buf = sse.AppendEvent(buf[:0], data, false) }); allocs != 0 {
		t.Errorf("%v allocations per event", allocs)
	}
}
