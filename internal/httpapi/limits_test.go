package httpapi

import (
	"strconv"
	"testing"

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
