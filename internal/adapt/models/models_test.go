package models

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee"
)

func describe(t *perigee.Thinking) string {
	switch {
	case t == nil:
		return ""
	case t.Budget != nil:
		return fmt.Sprint(*t.Budget)
	}
	return t.Level
}

func TestSplit(t *testing.T) {
	known := func(id string) bool {
		_, ok := Lookup(id)
		return ok || id == "mine" || id == "own-high"
	}
	for _, c := range []struct{ name, base, thinking string }{
		{"gemini-3-flash", "gemini-3-flash", ""},
		{"gemini-3-flash(high)", "gemini-3-flash", "high"},
		{"gemini-2.5-pro(8192)", "gemini-2.5-pro", "8192"},
		{"gemini-2.5-flash(none)", "gemini-2.5-flash", "0"},
		{"gemini-2.5-flash(0)", "gemini-2.5-flash", "0"},
		{"gemini-2.5-flash(auto)", "gemini-2.5-flash", "-1"},
		{"gemini-2.5-flash(-1)", "gemini-2.5-flash", "-1"},
		{"gemini-3-flash(xhigh)", "gemini-3-flash", "xhigh"},
		{"nobody-knows-me(low)", "nobody-knows-me", "low"}, // parentheses are never part of a name
		{"gemini-3-flash(-2)", "gemini-3-flash(-2)", ""},
		{"gemini-3-flash(99999999999)", "gemini-3-flash(99999999999)", ""},
		{"gemini-3-flash()", "gemini-3-flash()", ""},
		{"gemini-3-flash(loud)", "gemini-3-flash(loud)", ""},
		{"gemini-3-flash(high)(low)", "gemini-3-flash(high)", "low"},
		{"(high)", "(high)", ""},
		{")", ")", ""},
		{"gemini-3-flash-high", "gemini-3-flash", "high"},
		{"gemini-3-flash-minimal", "gemini-3-flash", "minimal"},
		{"gemini-2.5-pro-low", "gemini-2.5-pro", "low"},
		{"mine-medium", "mine", "medium"},
		{"gemini-3.1-pro-low", "gemini-3.1-pro-low", ""},       // a model of that name
		{"gemini-3.7-flash-high", "gemini-3.7-flash-high", ""}, // likewise
		{"gpt-oss-120b-medium", "gpt-oss-120b-medium", ""},     // likewise
		{"own-high", "own-high", ""},                           // likewise, from a provider's list
		{"nobody-knows-me-high", "nobody-knows-me-high", ""},   // neither is
		{"gemini-3.7-flash-high-low", "gemini-3.7-flash-high", "low"},
		{"-high", "-high", ""},
		{"", "", ""},
	} {
		base, thinking := Split(c.name, known)
		if base != c.base || describe(thinking) != c.thinking {
			t.Errorf("%s: got %s and %q, want %s and %q", c.name, base, describe(thinking), c.base, c.thinking)
		}
	}
}

// A wish belongs to its request: changing one must not change what the next request gets.
func TestSplitSharesNothing(t *testing.T) {
	_, first := Split("m(low)", nil)
	first.Level = "changed"
	if _, second := Split("m(low)", nil); second.Level != "low" {
		t.Errorf("got %q", second.Level)
	}
}

func TestGuess(t *testing.T) {
	for _, c := range []struct {
		id     string
		family Family
		think  string // most tokens, and levels
	}{
		{"gemini-2.5-flash-preview-09-2025", Gemini2, "24576"},
		{"gemini-2.5-pro-exp-03-25", Gemini2, "32768"},
		{"gemini-2.5-flash-lite-preview-06-17", Gemini2, "24576"},
		{"gemini-2.5-flash-preview-tts", Gemini2, "0"},
		{"gemini-2.0-flash-001", Gemini2, "0"},
		{"gemini-1.0-ultra", Gemini2, "0"},
		{"gemini-3-pro-preview-11-2025", Gemini, "32768 low high"},
		{"gemini-3.9-flash", Gemini, "32768 low medium high"},
		{"gemini-4-pro", Gemini, "32768 low high"},
		{"gemini-10-flash", Gemini, "32768 low medium high"},
		{"gemini-flash-latest", Gemini, "32768 low medium high"},
		{"gemini-4-pro-image", Image, "0"},
		{"gemini-2.5-flash-image-hd", Image, "0"},
		{"nano-banana-pro", Image, "0"},
		{"gemini-embedding-2", Embedding, "0"},
		{"gemini-embedding-001-exp", Embedding, "0"},
		{"claude-sonnet-4-5-20250929", Claude, "64000"},
		{"claude-haiku-9", Claude, "64000"},
		{"gpt-oss-20b", GPTOSS, "0"},
		{"gemma-3-27b-it", Other, "0"},
		{"", Other, "0"},
	} {
		got := Guess(c.id)
		think := strings.TrimSpace(fmt.Sprintf("%d %s", got.Thinking.Max, strings.Join(got.Thinking.Levels, " ")))
		if got.ID != c.id || got.Family != c.family || think != c.think {
			t.Errorf("%s: got id %s, family %q, thinking %q; want %q, %q", c.id, got.ID, got.Family, think, c.family, c.think)
		}
	}
}

func TestOfPrefersWhatIsKnown(t *testing.T) {
	if spec := Of("gemini-2.5-flash-lite"); spec.Thinking.Min != 512 || spec.Output != 65536 {
		t.Errorf("got %+v", spec)
	}
	if spec := Of("gemini-5-flash"); spec.Family != Gemini || spec.Output != 0 {
		t.Errorf("got %+v", spec)
	}
}

// The table must make sense by itself.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range table {
		if seen[s.ID] || s.ID == "" || s.Name == "" || len(s.In) == 0 || len(s.Out) == 0 {
			t.Errorf("%s: twice in the table, or without a name or modalities", s.ID)
		}
		seen[s.ID] = true
		if think := s.Thinking; think.Min > think.Max || think.Max == 0 && (think.Zero || think.Dynamic) {
			t.Errorf("%s: thinking %+v", s.ID, think)
		}
		for i, level := range s.Thinking.Levels {
			if j := slices.Index(minimalUp, level); j < 0 || i > 0 && j <= slices.Index(minimalUp, s.Thinking.Levels[i-1]) {
				t.Errorf("%s: levels %v", s.ID, s.Thinking.Levels)
			}
		}
		if s.Instead == "" {
			continue
		}
		if other, ok := Lookup(s.Instead); !ok || other.Family != s.Family {
			t.Errorf("%s: %s instead is unknown or of another family", s.ID, s.Instead)
		}
		if s.Family == Embedding {
			t.Errorf("%s: an embedding model has no replacement", s.ID)
		}
	}
}

func TestReasoning(t *testing.T) {
	for family, want := range map[Family]string{Claude: "claude", Gemini: "gemini", Gemini2: "gemini", Image: "gemini", GPTOSS: "", Embedding: "", Other: ""} {
		if got := family.Reasoning().Provider; got != want {
			t.Errorf("%q: got %q", family, got)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range table {
		f.Add(s.ID)
		f.Add(s.ID + "(high)")
	}
	f.Fuzz(func(t *testing.T, name string) {
		base, thinking := Split(name, func(string) bool { return true })
		if !strings.HasPrefix(name, base) || (thinking == nil) != (base == name) {
			t.Errorf("%q became %q and %v", name, base, thinking)
		}
		if spec := Guess(name); spec.ID != name {
			t.Errorf("%q became %q", name, spec.ID)
		}
	})
}
