package release

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// addPath adds a path and the directories that it is in.
func addPath(packed map[string]bool, name string) {
	for !packed[name] {
		packed[name] = true
		name = path.Dir(name)
	}
}

// fence matches the first or last line of a fenced code block of Markdown, with the fence and the text
// after it.
var fence = regexp.MustCompile("^[ >]*(?:[-*] +|[0-9]+[.] +)?(```+|~~~+)([^`]*)$")

// unlink returns a document in which relative links are plain text if their target is not packed, and
// such images are left out, so that every link of a packed document leads somewhere. It returns
// content that is not Markdown, and code in Markdown, unchanged.
func unlink(name string, content []byte, packed map[string]bool) []byte {
	if path.Ext(name) != ".md" {
		return content
	}
	dead := func(target string) bool {
		u, err := url.Parse(target)
		relative := err == nil && u.Scheme == "" && u.Host == "" && u.Path != "" && u.Path[0] != '/'
		return relative && !packed[path.Join(path.Dir(name), u.Path)]
	}
	var out, prose strings.Builder
	open := "" // the fence of the code block that the line is in
	for line := range strings.Lines(string(content)) {
		mark := fence.FindStringSubmatch(line)
		switch {
		case open == "" && mark == nil:
			prose.WriteString(line)
			continue
		case open == "":
			out.WriteString(withoutLinks(prose.String(), dead))
			prose.Reset()
			open = mark[1]
		case mark != nil && strings.HasPrefix(mark[1], open) && strings.TrimSpace(mark[2]) == "":
			open = ""
		}
		out.WriteString(line)
	}
	out.WriteString(withoutLinks(prose.String(), dead))
	return []byte(out.String())
}

// linkEnd matches the target of a link and its title, after the text.
var linkEnd = regexp.MustCompile(`^\]\(\s*<?([^\s<>()]+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)

// withoutLinks does what unlink does, for text without code blocks.
func withoutLinks(text string, dead func(target string) bool) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		n := span(text[i:])
		if image := strings.HasPrefix(text[i:], "!["); image || text[i] == '[' {
			from := i + 1
			if image {
				from++
			}
			to := closing(text, from)
			if end := linkEnd.FindStringSubmatch(text[to:]); end != nil {
				switch inner := withoutLinks(text[from:to], dead); {
				case !dead(end[1]):
					out.WriteString(text[i:from] + inner + end[0])
				case !image:
					out.WriteString(inner)
				}
				i = to + len(end[0])
				continue
			}
		}
		out.WriteString(text[i : i+n])
		i += n
	}
	return out.String()
}

// span returns the length of the character, the escaped character or the code span that a text begins
// with.
func span(text string) int {
	if text[0] == '\\' && len(text) > 1 {
		return 2
	}
	ticks := len(text) - len(strings.TrimLeft(text, "`"))
	if ticks == 0 {
		return 1
	}
	paragraph, _, _ := strings.Cut(text, "\n\n")
	for at := ticks; at < len(paragraph); {
		next := strings.IndexByte(paragraph[at:], '`')
		if next < 0 {
			break
		}
		at += next
		count := len(paragraph[at:]) - len(strings.TrimLeft(paragraph[at:], "`"))
		at += count
		if count == ticks {
			return at
		}
	}
	return ticks
}

// closing returns where the bracket that closes the text of a link is, or the length of the text if
// the paragraph has none.
func closing(text string, from int) int {
	for depth, i := 0, from; i < len(text) && !strings.HasPrefix(text[i:], "\n\n"); i += span(text[i:]) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return len(text)
}
