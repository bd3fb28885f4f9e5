package redact

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"perigee/internal/testing/perigeetest"
)

func TestStreamAllocatesNothing(t *testing.T) {
	perigeetest.Unraced(t)
	r := redactorOf(manySecrets(1000)...)
	text := sampleBody(100 << 10)
	out := make([]byte, 0, len(text))
	if n := testing.AllocsPerRun(20, func() { out = r.AppendAll(out[:0], text) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	if !bytes.Equal(out, text) {
		t.Error("the text was changed")
	}
}

// A piece is searched where it is, but for its beginning, which is searched with the end of the one
// before it.
func TestStreamCopiesNoLargePieces(t *testing.T) {
	perigeetest.Unraced(t)
	r := redactorOf(manySecrets(1000)...)
	text := sampleBody(1 << 20)
	out := r.AppendAll(make([]byte, 0, len(text)+1<<10), text) // makes the index
	for _, size := range []int{len(text) / 2, 64 << 10, 4 << 10} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var s Stream
		out = out[:0]
		for piece := range slices.Chunk(text, size) {
			out = s.Append(out, r, piece)
		}
		out = s.Close(out, r)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(text)/4) {
			t.Errorf("pieces of %d bytes: %d bytes are allocated", size, used)
		}
		if !bytes.Equal(out, text) {
			t.Errorf("pieces of %d bytes: the text was changed", size)
		}
	}
}
