package daemon

import (
	"slices"
	"testing"
)

func TestGarbageIsCollectedSoonerWhileLargeBodiesAreHere(t *testing.T) {
	var set []int
	c := &collector{setPercent: func(percent int) { set = append(set, percent) }, patient: true}
	for range 100 {
		c.hold(400 << 10) // the bodies of agents
		c.hold(-400 << 10)
	}
	for range 20 {
		c.hold(4 << 20) // many at once
	}
	for range 15 {
		c.hold(-4 << 20)
		c.hold(4 << 20) // one goes, the next comes: nothing changes
		c.hold(-4 << 20)
	}
	c.hold(-16 << 20)
	if want := []int{impatience, patience}; !slices.Equal(set, want) {
		t.Errorf("the percentage was set to %d, want %d", set, want)
	}
}

func TestMemoryIsGivenBackWhileCallsAreOpenOnlyIfThereIsMuch(t *testing.T) {
	for _, test := range []struct {
		open  int
		spare int64
		want  bool
	}{{0, 0, true}, {1, manySpare - 1, false}, {1, manySpare, true}} {
		given := false
		c := &collector{spare: func() int64 { return test.spare }, collect: func() { given = true }}
		if c.giveBack(test.open); given != test.want {
			t.Errorf("with %d calls open and %d spare bytes: given back %v", test.open, test.spare, given)
		}
	}
	if spare := spareMemory(); spare <= 0 {
		t.Errorf("%d bytes spare in this process", spare)
	}
}
