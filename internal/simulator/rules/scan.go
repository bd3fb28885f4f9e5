package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// A JSONError describes, with the text of the provider, why a body is not JSON.
type JSONError struct {
	Rule string
	Text string
}

func (e *JSONError) Error() string { return e.Text }

// CheckJSON returns nil if body is one well-formed JSON object in UTF-8. Otherwise the error is a
// *JSONError.
func CheckJSON(body []byte) error {
	if !utf8.Valid(body) {
		return &JSONError{Rule: "json.utf8", Text: "Encountered non UTF-8 code points."}
	}
	if !json.Valid(body) {
		return &JSONError{Rule: "json.syntax", Text: syntaxText(body)}
	}
	if s := (scanner{b: body}); s.peek() != '{' {
		return &JSONError{Rule: "json.root", Text: `Unknown name "": Root element must be a message.`}
	}
	return nil
}

// syntaxText quotes the line around the fault with a caret below, as the provider does.
func syntaxText(body []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw)
	fault, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || len(bytes.TrimSpace(body)) == 0 || strings.HasPrefix(err.Error(), "unexpected end") {
		return "Unexpected end of string. Expected a value."
	}
	at := max(int(fault.Offset)-1, 0)
	from := max(bytes.LastIndexByte(body[:at], '\n')+1, at-20)
	to := min(at+20, len(body))
	if i := bytes.IndexByte(body[at:to], '\n'); i >= 0 {
		to = at + i
	}
	line := strings.ToValidUTF8(string(body[from:to]), "")
	caret := strings.Repeat(" ", len(strings.ToValidUTF8(string(body[from:at]), "")))
	return fmt.Sprintf("Unexpected token.\n%s\n%s^", line, caret)
}

// RefuseJSON returns the answer to a body that is not JSON. Errors of CheckJSON keep their
// message; a body that ended early or could not be read as JSON for another reason gets the
// closest one.
func RefuseJSON(err error) *Refusal {
	rule, text := "json.syntax", "Unexpected token."
	if own, ok := errors.AsType[*JSONError](err); ok {
		rule, text = own.Rule, own.Text
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		text = "Unexpected end of string. Expected a value."
	}
	return &Refusal{Rule: rule, Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "Invalid JSON payload received. " + text}
}

// A scanner steps through JSON that is known to be valid. It never allocates and never goes back,
// so that one pass over a body takes linear time.
type scanner struct {
	b []byte
	i int
}

// peek returns the first byte of the next value or punctuation.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.i++
		default:
			return s.b[s.i]
		}
	}
	return 0
}

// enter steps over an opening bracket.
func (s *scanner) enter() { s.peek(); s.i++ }

// leave reports whether the object or list has ended, and steps over its bracket.
func (s *scanner) leave() bool {
	c := s.peek()
	if c == '}' || c == ']' || c == 0 {
		s.i++
		return true
	}
	return false
}

// key reads a member's name.
func (s *scanner) key() string { return unquote(s.skip()) }

// skip steps over one value and returns it.
func (s *scanner) skip() []byte {
	c := s.peek()
	start := s.i
	switch c {
	case '"':
		s.skipString()
	case '{', '[':
		s.skipNested()
	default:
		for s.i < len(s.b) && !strings.ContainsRune(" \t\r\n,:]}", rune(s.b[s.i])) {
			s.i++
		}
	}
	return s.b[start:min(s.i, len(s.b))]
}

func (s *scanner) skipString() {
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return
		}
	}
}

func (s *scanner) skipNested() {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			s.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
}

// unquote decodes a JSON string.
func unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
