package heapsample

import (
	"go/build"
	"runtime"
	"slices"
	"testing"
)

func TestRate(t *testing.T) {
	if runtime.MemProfileRate != Bytes {
		t.Errorf("the rate is %d", runtime.MemProfileRate)
	}
}

// TestInitializedEarly holds the reason why the rate is set before packages allocate.
func TestInitializedEarly(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil || !slices.Equal(p.Imports, []string{"runtime"}) {
		t.Errorf("imports %v, %v", p.Imports, err)
	}
}
