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

// Size of the texts in which the line of a syntax error is searched, which takes quadratic time.
const (
	maxLinesToSearch = 500
	maxBytesToSearch = 64 << 10
)

// parseTree returns the root of the only document in a text, nil if the text is empty. If the text
// is not one YAML document, it returns a problem without a source.
func parseTree(text []byte) (*yaml.Node, *Problem) {
	if offset := firstInvalid(text); offset >= 0 {
		before := text[:offset]
		line := before[bytes.LastIndexByte(before, '\n')+1:]
		return nil, &Problem{Origin{"", bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(line) + 1}, "the file is not UTF-8 text", "save it as UTF-8"}
	}
	documents, err := parseAll(text)
	switch {
	case err != nil:
		return nil, syntaxError(text, err)
	case len(documents) > 1:
		second := documents[1]
		return nil, &Problem{Origin{"", second.Line, second.Column}, "the file contains a second YAML document", "remove the --- between them"}
	case len(documents) == 0:
		return nil, nil
	}
	return documents[0].Content[0], nil
}

func parseAll(text []byte) (documents []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := new(yaml.Node)
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// syntaxError returns the position where the text stops being YAML. The parser names at best the
// line where the enclosing block began.
func syntaxError(text []byte, err error) *Problem {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
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
		return &Problem{Origin{"", line, tab + 1}, "a tab in the indentation", "use spaces"}
	}
	hint := ""
	switch {
	case strings.HasPrefix(message, "unknown anchor"):
		// The name may be a secret that begins with a star.
		message, hint = "* refers to an anchor that does not exist", "put a value that begins with * in quotes"
	case strings.Contains(message, "mapping values are not allowed"):
		message, hint = "a second colon where a value was expected", "put a value that contains \": \" in quotes, and check the indentation"
	case strings.Contains(message, "cannot start any token"):
		hint = "put a value that begins with @, ` or % in quotes"
	}
	return &Problem{Origin{"", line, len(indent) + 1}, "not valid YAML: " + message, hint}
}

// firstBadLine counts from 1. It is the line after the longest beginning of the text that is YAML,
// so an unclosed list is reported where it was opened.
func firstBadLine(text []byte, lines [][]byte) int {
	end := len(text)
	for i := len(lines) - 1; i > 0; i-- {
		end -= len(lines[i])
		if _, err := parseAll(text[:end]); err == nil {
			return i + 1
		}
	}
	return 1
}

// firstInvalid returns the offset of the first byte that is NUL or not UTF-8, or -1.
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
