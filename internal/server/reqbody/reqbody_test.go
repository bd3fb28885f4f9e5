package reqbody

import (
	"bytes"
	"runtime"
	"testing"
)

// A large body has garbage collected only where it is a large part of the heap: a server with many
// streams does not mark all of them for a client that sends a few megabytes.
func TestLargeBodiesLeaveALargeHeapAlone(t *testing.T) {
	body := make([]byte, Large)
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	receive := func() (collections uint32) {
		t.Helper()
		before := forced()
		got, err := Read(bytes.NewReader(body), Large, 2*Large, func(int64) error { return nil }, func(int) {})
		if err != nil || len(got) != Large {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		CollectDecoded(got)
		Release(got)
		return forced() - before
	}
	ballast := make([]byte, 16*Large)

	runtime.GC()
	for range 3 {
		if n := receive(); n != 0 {
			t.Errorf("%d collections were forced beside %d MB of other data", n, len(ballast)>>20)
		}
	}
	runtime.KeepAlive(ballast)
	runtime.GC()
	garbageLeft.Store(false)
	for i, want := range []uint32{1, 2, 2} { // after decoding, and before the next one for what the last one has left
		if n := receive(); n != want {
			t.Errorf("body %d: %d collections were forced, want %d", i, n, want)
		}
	}
}
