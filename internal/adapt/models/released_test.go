package models

import (
	"testing"
	"time"
)

func TestReleaseDates(t *testing.T) {
	for id, date := range released {
		at, err := time.Parse(time.DateOnly, date)
		if _, known := Lookup(id); !known || err != nil || !Released(id).Equal(at) {
			t.Errorf("%s: %s, known %v, %v", id, date, known, err)
		}
	}
	if at := Released("a-model-of-tomorrow"); !at.IsZero() {
		t.Errorf("a model that is in no table was released %v", at)
	}
}
