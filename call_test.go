package perigee_test

import (
	"slices"
	"testing"
	"time"

	"perigee"
)

func TestIDsGrowWithTimeAndDiffer(t *testing.T) {
	start := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 1000 {
		ids = append(ids, perigee.NewCallID(start.Add(time.Duration(i)*time.Millisecond)))
	}
	if !slices.IsSorted(ids) {
		t.Error("a later call has a name that sorts before an earlier one")
	}
	seen := map[string]bool{}
	for range 10_000 {
		id := perigee.NewCallID(start)
		if len(id) != 20 || id[:10] != ids[0][:10] || seen[id] {
			t.Fatalf("%q: want %q and ten more digits that were not there before", id, ids[0][:10])
		}
		seen[id] = true
	}
}
