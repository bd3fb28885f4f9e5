package perigee_test

import (
	"testing"

	"perigee"
)

func TestABufferIsRecycledByItsLastUser(t *testing.T) {
	freed := 0
	b := perigee.NewBuffer(func() { freed++ })
	if !b.Retain() || freed != 0 {
		t.Fatal("it is recycled while it is used")
	}
	b.Release()
	if freed != 0 {
		t.Error("it is recycled while it is used")
	}
	b.Release()
	if freed != 1 || b.Retain() {
		t.Errorf("recycled %d times", freed)
	}
	(*perigee.Buffer)(nil).Release()
}
