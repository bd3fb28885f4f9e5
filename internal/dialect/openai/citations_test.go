package openai

import (
	"testing"

	"perigee"
)

// Citations count characters, and find their stretch of text where the provider counts from
// elsewhere.
func TestCitations(t *testing.T) {
	sources := []perigee.Source{{URL: "u0", Title: "t0"}, {URL: "u1", Title: "t1"}}
	for name, c := range map[string]struct {
		text     string
		supports []perigee.Support
		want     []Citation
	}{
		"bytes and characters": {"é, a", []perigee.Support{{Start: 4, End: 5, Text: "a", Sources: []int64{1}}}, []Citation{{3, 4, "u1", "t1"}}},
		"backwards": {"ab", []perigee.Support{{Start: 1, End: 2, Sources: []int64{0}}, {End: 1, Sources: []int64{1}}},
			[]Citation{{1, 2, "u0", "t0"}, {0, 1, "u1", "t1"}}},
		"counted from elsewhere": {"hello you", []perigee.Support{{Start: 0, End: 3, Text: "you", Sources: []int64{0}}}, []Citation{{6, 9, "u0", "t0"}}},
		"out of range":           {"ab", []perigee.Support{{Start: -5, End: 50, Sources: []int64{0, 2, -1}}}, []Citation{{0, 2, "u0", "t0"}}},
		"no stretch":             {"ab", nil, []Citation{{0, 0, "u0", "t0"}, {0, 0, "u1", "t1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Citations(c.text, &perigee.Grounding{Sources: sources, Supports: c.supports})
			if len(got) != len(c.want) {
				t.Fatalf("got %v", got)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("got %v, want %v", got[i], c.want[i])
				}
			}
		})
	}
}
