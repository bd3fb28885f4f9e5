package membudget

import (
	"slices"
	"testing"
)

func TestGOGCFollowsReservedBytes(t *testing.T) {
	var set []int
	c := &Collector{setPercent: func(percent int) { set = append(set, percent) }}
	for range 100 {
		c.Hold(400 << 10) // the bodies of agents
		c.Hold(-400 << 10)
	}
	for range 20 {
		c.Hold(4 << 20) // many at once
	}
	for range 15 {
		c.Hold(-4 << 20)
		c.Hold(4 << 20) // one goes, the next comes: nothing changes
		c.Hold(-4 << 20)
	}
	c.Hold(-16 << 20)
	c.Hold(240 << 20) // one of 60 MB
	c.Hold(-220 << 20)
	c.Hold(-20 << 20)
	if want := []int{100, 400, 50, 100, 400}; !slices.Equal(set, want) {
		t.Errorf("the percentage was set to %d, want %d", set, want)
	}
}

func TestMemoryIsReturnedWhileCallsAreOpenOnlyIfThereIsMuch(t *testing.T) {
	for _, test := range []struct {
		open  int
		spare int64
		want  bool
	}{{0, 0, true}, {1, manySpare - 1, false}, {1, manySpare, true}} {
		given, released := false, false
		c := &Collector{spare: func() int64 { return test.spare }, collect: func() { given = true }, release: func() { released = true }}
		if c.GiveBack(test.open); given != test.want || released != (test.open == 0) {
			t.Errorf("with %d calls open and %d spare bytes: given back %v, program released %v", test.open, test.spare, given, released)
		}
	}
	if spare := spareMemory(); spare <= 0 {
		t.Errorf("%d bytes spare in this process", spare)
	}
}
