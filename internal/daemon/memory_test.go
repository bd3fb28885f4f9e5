package daemon

import (
	"slices"
	"testing"
)

func TestGarbageIsCollectedSoonerWhileLargeBodiesAreHere(t *testing.T) {
	var set []int
	c := &collector{setPercent: func(percent int) { set = append(set, percent) }, patient: true}
	for range 100 {
		c.hold(100 << 10) // the bodies of agents
		c.hold(-100 << 10)
	}
	for range 20 {
		c.hold(1 << 20) // many at once
	}
	for range 15 {
		c.hold(-1 << 20)
		c.hold(1 << 20) // one goes, the next comes: nothing changes
		c.hold(-1 << 20)
	}
	c.hold(-4 << 20)
	if want := []int{impatience, patience}; !slices.Equal(set, want) {
		t.Errorf("the percentage was set to %d, want %d", set, want)
	}
}
