package sse

import (
	"io"
	"strings"
	"testing"
)

// TestBufferShrinksAfterALongLine looks at the buffer while the reader waits for more bytes.
func TestBufferShrinksAfterALongLine(t *testing.T) {
	var r *Reader
	var sizes []int
	watch := readerFunc(func([]byte) (int, error) {
		sizes = append(sizes, cap(r.buf))
		return 0, io.EOF
	})
	r = NewReader(io.MultiReader(
		strings.NewReader("data: a\n\n"), watch, strings.NewReader("data: "+strings.Repeat("x", 5<<20)+"\n\n"), watch))
	for _, want := range []int{1, 5 << 20} {
		if e, err := r.Next(); len(e.Data) != want || err != nil {
			t.Fatalf("got %d bytes, %v", len(e.Data), err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if len(sizes) != 2 || sizes[0] != firstBuffer || sizes[1] > idleBuffer {
		t.Errorf("buffers of %v bytes", sizes)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
