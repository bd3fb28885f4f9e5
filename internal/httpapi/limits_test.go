package httpapi

import (
	"strconv"
	"testing"
	"time"

	"perigee"
)

func TestOneKeyDoesNotTakeAllBackgroundPlaces(t *testing.T) {
	var b background
	for i := range maxBackgroundOfKey {
		if _, _, err := b.enter(t.Context(), "a"+strconv.Itoa(i), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := b.enter(t.Context(), "one more", "a"); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassRateLimited {
		t.Errorf("one more for the same key: %v", err)
	}
	if _, _, err := b.enter(t.Context(), "b", "b"); err != nil {
		t.Errorf("another key: %v", err)
	}
	for _, r := range b.runs {
		r.cancel(nil)
	}
}

// A call that makes several requests takes as many out of the bucket.
func TestSeveralPicturesCountAsSeveralRequests(t *testing.T) {
	keys := guardKeys([]Key{{Name: "k", RPM: 5}}, nil)
	c := &call{key: keys[0]}
	if _, err := keys[0].enter(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := c.admitMore(3); err != nil {
		t.Errorf("four of five: %v", err)
	}
	if err := c.admitMore(2); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassRateLimited {
		t.Errorf("six of five: %v", err)
	}
	if err := c.admitMore(1); err != nil {
		t.Errorf("five of five: %v", err)
	}
}
