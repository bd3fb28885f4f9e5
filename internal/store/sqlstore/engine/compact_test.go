package engine

import "testing"

// A small file needs little space on its disk.
func TestCompactAsksForTheSizeOfTheFile(t *testing.T) {
	t.Parallel()
	for pages, want := range map[int64]int64{43: 1 << 20, 1 << 20: compactSpace} {
		size := pages * 4096
		if got := logWhileMoving(pageCounts{size: 4096, all: pages}); got > want || got < min(size, compactSpace) {
			t.Errorf("%d bytes need %d", size, got)
		}
	}
}
