package perigeetest

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What visible writes is text that an archive gives back unchanged, and plain reads the same bytes
// out of it.
func TestVisibleIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.SliceOf(rapid.SampledFrom([]byte("\r\n-! x\xe2\x90\x8d⟪⟫␍pause"))),
		).Draw(t, "data")
		text := visible(data)
		archive := txtar.Parse(txtar.Format(&txtar.Archive{Files: []txtar.File{{Name: "part", Data: []byte(text + "\n")}}}))
		if len(archive.Files) != 1 {
			t.Fatalf("%q breaks the archive", text)
		}
		pieces, err := plain(strings.TrimSuffix(string(archive.Files[0].Data), "\n"))
		if err != nil || len(pieces) != 1 || !bytes.Equal(pieces[0].data, data) {
			t.Fatalf("%q became %+v (%v)", text, pieces, err)
		}
	})
}

func TestVisibleIsReadable(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"line ends", "a\r\nb\n", "a␍\nb\n"},
		{"letters of all kinds", "é €\tok", "é €\tok"},
		{"half a letter", "\xe2\x82", "⟪e2⟫⟪82⟫"},
		{"control characters", "\x00\x7f\ufeff", "⟪00⟫⟪7f⟫⟪ef⟫⟪bb⟫⟪bf⟫"},
		{"like a direction", "!pause\nx!", "⟪21⟫pause\nx!"},
		{"like a part", "-- request --", "⟪2d⟫- request --"},
	}
	for _, test := range tests {
		if got := visible([]byte(test.data)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestPlainFindsStageDirections(t *testing.T) {
	pieces, err := plain("a⟪pause⟫b\n!reset\nc!hang")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pieces {
		got = append(got, p.action+":"+string(p.data))
	}
	if want := ":a pause: :b\n reset: :c!hang"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
	for _, wrong := range []string{"⟪", "⟪zz⟫", "⟪wait⟫"} {
		if _, err := plain(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
