package responses

import (
	"fmt"
	"strings"
	"testing"
)

func TestRoomKeepsWhatItGave(t *testing.T) {
	room := newRoom(400)
	var got, want []string
	for i := range 50 {
		value := fmt.Sprintf(`"%s"`, strings.Repeat("x", i)) // the longer ones get memory of their own
		object := room.wrap("output", []byte(value))
		got = append(got, string(object))
		want = append(want, `{"output":`+value+`}`)
		_ = append(object, "overwritten"...)
		if string(object) != want[i] {
			t.Fatalf("got %s, want %s", object, want[i])
		}
	}
	objects := make([][]byte, 50)
	room = newRoom(1000)
	for i := range objects {
		objects[i] = room.wrap("output", fmt.Appendf(nil, "%d", i))
	}
	for i, object := range objects {
		if want := fmt.Sprintf(`{"output":%d}`, i); string(object) != want {
			t.Errorf("got %s, want %s", object, want)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %s", got)
	}
}

func TestRoomIsMadeInFewSteps(t *testing.T) {
	value := []byte(`"` + strings.Repeat("x", 4300) + `"`)
	const count = 1000
	allocs := testing.AllocsPerRun(5, func() {
		room := newRoom(count * len(value))
		for range count {
			room.wrap("output", value)
		}
	})
	// Less than one answer is left over at the end of each step.
	if most := float64(count*len(value)/(maxRoomStep-len(value)-100) + 1); allocs > most {
		t.Errorf("%g steps for %d answers of %d bytes, want at most %g", allocs, count, len(value), most)
	}
}
