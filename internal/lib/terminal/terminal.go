// Package terminal writes for a person at a terminal: tables and log lines that fit its width, in
// the colours that it has. Streams that are not terminals get everything, unfolded.
package terminal

import (
	"io"
	"os"
	"strings"
	"unicode"
)

// DefaultWidth is the width of a terminal that does not report one.
const DefaultWidth = 80

// Width returns the number of characters in a line of the stream, or 0 if the stream is not a
// terminal.
func Width(stream io.Writer) int {
	file, ok := stream.(*os.File)
	if !ok || !Is(file) {
		return 0
	}
	columns, ok := consoleColumns(file)
	switch {
	case !ok:
		return 0
	case columns == 0:
		return DefaultWidth
	}
	return columns
}

// Is reports whether a stream is a terminal. /dev/null, which is a character device too, is not.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && isConsole(file)
}

// Printable replaces characters that could control the terminal. Names and messages of clients and
// providers go through it.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// Fold breaks a text at its spaces into lines of at most width characters. Each line starts with
// the indentation of the text. A longer word gets a line of its own and stays whole, so that an
// address can be copied.
func Fold(text string, width int) []string { return fold(text, width, false) }

// fold is Fold; with cut, words longer than a line are cut.
func fold(text string, width int, cut bool) []string {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	width = max(width-len(indent), 1)
	var lines []string
	var line []rune
	for word := range strings.FieldsSeq(text) {
		rest := []rune(word)
		if len(line) > 0 && len(line)+1+len(rest) <= width {
			line = append(append(line, ' '), rest...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, indent+string(line))
		}
		for ; cut && len(rest) > width; rest = rest[width:] {
			lines = append(lines, indent+string(rest[:width]))
		}
		line = rest
	}
	return append(lines, indent+string(line))
}
