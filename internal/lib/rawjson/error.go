package rawjson

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// An Error describes the first error in a text and its position.
type Error struct {
	Offset int // bytes before the problem
	Line   int // from 1
	Column int // in characters, from 1
	// Path is the value or container around the problem, such as contents[0].parts, or "" for the
	// whole text.
	Path    string
	Problem string // quotes at most some 60 bytes of the text
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
	}
	return fmt.Sprintf("line %d, column %d (%s): %s", e.Line, e.Column, e.Path, e.Problem)
}

func newError(data []byte, offset int, problem string) *Error {
	before := data[:offset]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return &Error{
		Offset:  offset,
		Line:    bytes.Count(before, []byte{'\n'}) + 1,
		Column:  utf8.RuneCount(before[lineStart:]) + 1,
		Path:    pathAt(data, offset),
		Problem: problem,
	}
}

const (
	problemDepth = "nested deeper than 1000 levels"
	problemKeys  = "too many keys for the size of the text"
)

// unexpected fails because of the byte at i, or because the text ends there.
func (k *checker) unexpected(i int, where string) int {
	if i >= len(k.data) {
		if len(bytes.TrimSpace(k.data)) == 0 {
			return k.fail(len(k.data), "the text is empty")
		}
		return k.fail(len(k.data), "the text ends "+where)
	}
	r, size := utf8.DecodeRune(k.data[i:])
	if r == utf8.RuneError && size == 1 {
		return k.fail(i, "invalid UTF-8: byte "+hexByte(k.data[i]))
	}
	return k.fail(i, "found "+strconv.QuoteRune(r)+" "+where)
}

// maxQuote is how many bytes of the input a message repeats.
const maxQuote = 40

func quoteShort(text []byte) string {
	if len(text) <= maxQuote {
		return strconv.Quote(string(text))
	}
	return strconv.Quote(string(shorten(text, maxQuote))) + "…"
}

// shorten cuts text to at most n bytes, not inside a character.
func shorten(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func hexByte(c byte) string { return fmt.Sprintf("0x%02x", c) }
