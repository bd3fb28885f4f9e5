package config

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile = 1 << 20 // bytes; a configuration is read by people
	// How long a file may be for its syntax error to be found by trying, which is quadratic.
	maxLinesToSearch = 500
	maxBytesToSearch = 64 << 10
)

// parse turns the text of the file into a tree, nil when there is nothing in it. What it reports ends
// the reading of the file, because a tree that is not whole says nothing about what was meant.
func (l *loader) parse(text []byte) *yaml.Node {
	if offset := firstInvalid(text); offset >= 0 {
		line, column := position(text, offset)
		l.problemAt(line, column, "the file is not UTF-8 text", "save it as UTF-8")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		l.syntaxProblem(text, err)
		return nil
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		l.syntaxProblem(text, err)
		return nil
	default:
		l.problemAt(second.Line, second.Column, "the file holds a second YAML document", "remove the --- between them")
		return nil
	}
	return document.Content[0]
}

// syntaxProblem says where the text stops being YAML. The parser names at best the line where the
// enclosing block began, so the place is found by asking how much of the text it would take.
func (l *loader) syntaxProblem(text []byte, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		number, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, message = max(1, n), after
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) <= maxLinesToSearch && len(text) <= maxBytesToSearch {
		line = firstBadLine(text, lines)
	}
	line = min(line, len(lines))
	content := string(lines[line-1])
	indent := content[:len(content)-len(strings.TrimLeft(content, " \t"))]
	if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
		l.problemAt(line, tab+1, "a tab in the indentation", "YAML takes only spaces there")
		return
	}
	column, hint := len(indent)+1, ""
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		// The name may be a secret that begins with a star.
		message, hint = "* refers to an anchor that does not exist", "put a value that begins with * in quotes"
	case strings.Contains(message, "mapping values are not allowed"):
		message, hint = "a second colon where a value was expected", "put a value that holds \": \" in quotes, and look at the indentation"
	case strings.Contains(message, "cannot start any token"):
		hint = "put a value that begins with @, ` or % in quotes"
	}
	l.problemAt(line, column, "not valid YAML: "+message, hint)
}

// firstBadLine counts from 1. It is the line after the longest beginning of the text that is YAML: what
// was opened and never closed is reported where it was opened.
func firstBadLine(text []byte, lines [][]byte) int {
	end := len(text)
	for i := len(lines) - 1; i > 0; i-- {
		end -= len(lines[i])
		var node yaml.Node
		decoder := yaml.NewDecoder(bytes.NewReader(text[:end]))
		err := decoder.Decode(&node)
		for err == nil {
			err = decoder.Decode(&node)
		}
		if errors.Is(err, io.EOF) {
			return i + 1
		}
	}
	return 1
}

// firstInvalid is the offset of the first byte that is not UTF-8 or a NUL, or -1.
func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func position(text []byte, offset int) (line, column int) {
	before := text[:offset]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}
