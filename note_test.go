package perigee_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee"
)

func TestNotesKeepEachNoteOnceAndInOrder(t *testing.T) {
	var n perigee.Notes
	n.Dropped("seed")
	n.Mapped("seed")
	n.Dropped("seed")
	n.Repaired("role")
	n.Rest("tools[].")([]byte(strings.Repeat("x", 100)))
	want := []perigee.Note{
		{Action: perigee.NoteDropped, Subject: "seed"},
		{Action: perigee.NoteMapped, Subject: "seed"},
		{Action: perigee.NoteRepaired, Subject: "role"},
		{Action: perigee.NoteDropped, Subject: "tools[]." + strings.Repeat("x", 57) + "…"},
	}
	if got := n.List(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNotesAreBounded(t *testing.T) {
	var n perigee.Notes
	for i := range 64 {
		n.Unknown("", fmt.Append(nil, i))
	}
	n.Dropped("0")
	if n.Full() || len(n.List()) != 64 {
		t.Fatalf("full %t with %d notes, want 64 that are not the limit yet", n.Full(), len(n.List()))
	}
	for i := range 100 {
		n.Mapped(fmt.Sprint("further ", i))
	}
	list := n.List()
	last := list[len(list)-1].String()
	if !n.Full() || len(list) != 65 || last != "dropped more than can be listed" {
		t.Errorf("full %t with %d notes, the last %q", n.Full(), len(list), last)
	}
	name := []byte("name")
	if allocs := testing.AllocsPerRun(10, func() { n.Unknown("path.", name) }); allocs != 0 {
		t.Errorf("a note that is not kept allocates %v times", allocs)
	}
}
