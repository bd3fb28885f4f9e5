package mcpserver

import (
	"strings"
	"testing"

	"perigee/internal/lib/filetool"
)

// What a model is told beside the text of a file is true, and says how to go on only if that leads
// anywhere.
func TestTextsOfAFile(t *testing.T) {
	for name, c := range map[string]struct {
		in   filetool.ReadInput
		out  filetool.ReadResult
		want []string
	}{
		"all of it": {filetool.ReadInput{}, filetool.ReadResult{Content: "a\n", Lines: 1, TotalLines: new(1)}, []string{"a\n"}},
		"some lines": {filetool.ReadInput{Offset: 2, Limit: 1}, filetool.ReadResult{Content: "b\n", Lines: 1, TotalLines: new(3), Truncated: true},
			[]string{"b\n", "These are lines 2 to 2 of f. Read on with offset 3."}},
		"the end was not seen": {filetool.ReadInput{}, filetool.ReadResult{Content: "a\nb\n", Lines: 2, Truncated: true},
			[]string{"a\nb\n", "These are lines 1 to 2 of f. Read on with offset 3."}},
		"a long line": {filetool.ReadInput{}, filetool.ReadResult{Content: "aaa", Lines: 1, TotalLines: new(2), Truncated: true},
			[]string{"aaa", "These are lines 1 to 1 of f. Line 1 is too long and cut; its rest cannot be read. Read on with offset 2."}},
		"a long last line": {filetool.ReadInput{}, filetool.ReadResult{Content: "aaa", Lines: 1, TotalLines: new(1), Truncated: true},
			[]string{"aaa", "These are lines 1 to 1 of f. Line 1 is too long and cut; its rest cannot be read."}},
		"behind the end": {filetool.ReadInput{Offset: 4}, filetool.ReadResult{TotalLines: new(3)}, []string{"There are no lines from 4 on: f ends with line 3."}},
		"binary": {filetool.ReadInput{}, filetool.ReadResult{Content: "AAEC", Encoding: "base64"},
			[]string{"f is not a text file. Its content is in the structured result, as base64."}},
		"large binary": {filetool.ReadInput{}, filetool.ReadResult{Content: "AAEC", Encoding: "base64", Truncated: true},
			[]string{"f is not a text file. Its beginning is in the structured result, as base64."}},
	} {
		c.out.Path = "f"
		if got := readTexts(c.in, &c.out); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
