package perigeetest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The stage directions inside messages.
const (
	actionPause = "pause"
	actionReset = "reset"
	actionHang  = "hang"
	actionGzip  = "gzip"
)

// A piece of a message is bytes or a stage direction.
type piece struct {
	data   []byte
	action string
}

// visible writes bytes as text that an archive can hold and a person can read; plain undoes it.
func visible(data []byte) string {
	var b strings.Builder
	lineStart := true
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\r':
			b.WriteString("␍")
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1, !unicode.IsPrint(r), r == '␍', r == '⟪',
			lineStart && r == '!', // would read as a stage direction
			lineStart && r == '-': // would read as the start of a part
			for _, c := range data[:size] {
				fmt.Fprintf(&b, "⟪%02x⟫", c)
			}
		default:
			b.WriteRune(r)
		}
		lineStart = r == '\n'
		data = data[size:]
	}
	return b.String()
}

// plain reads what visible wrote, and the stage directions that a person put in between.
func plain(text string) ([]piece, error) {
	var pieces []piece
	var data []byte
	act := func(action string) {
		pieces = append(pieces, piece{data: data}, piece{action: action})
		data = nil
	}
	for first := true; text != ""; first = false {
		if action, rest, ok := cutDirection(text); ok && (first || len(data) == 0 || data[len(data)-1] == '\n') {
			act(action)
			text = rest
			continue
		}
		switch {
		case strings.HasPrefix(text, "␍"):
			data = append(data, '\r')
			text = text[len("␍"):]
		case strings.HasPrefix(text, "⟪"):
			code, rest, ok := strings.Cut(text[len("⟪"):], "⟫")
			if !ok {
				return nil, fmt.Errorf("⟪ without ⟫ before %.20q", text)
			}
			if raw, err := hex.DecodeString(code); err == nil {
				data = append(data, raw...)
			} else if isAction(code) {
				act(code)
			} else {
				return nil, fmt.Errorf("⟪%s⟫ is neither bytes nor a stage direction", code)
			}
			text = rest
		default:
			data = append(data, text[0])
			text = text[1:]
		}
	}
	return append(pieces, piece{data: data}), nil
}

// cutDirection takes a line with a stage direction off the front of text.
func cutDirection(text string) (action, rest string, ok bool) {
	if !strings.HasPrefix(text, "!") {
		return "", text, false
	}
	line, rest, _ := strings.Cut(text[1:], "\n")
	return line, rest, isAction(line)
}

func isAction(word string) bool {
	switch word {
	case actionPause, actionReset, actionHang, actionGzip:
		return true
	}
	return false
}

// direct appends a stage direction to a text that is being written.
func direct(text, action string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text + "!" + action + "\n"
	}
	return text + "⟪" + action + "⟫"
}

// A head is the first line of a message and its headers.
type head struct {
	line   string
	fields []field
}

type field struct{ name, value string }

func (h *head) get(name string) string {
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

func (h *head) add(name, value string) { h.fields = append(h.fields, field{name, value}) }

// String writes the head with plain line ends and the blank line after it.
func (h *head) String() string {
	var b strings.Builder
	b.WriteString(h.line + "\n")
	for _, f := range h.fields {
		b.WriteString(f.name + ": " + f.value + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// parseMessage splits the text of a part into head and body. A part that ends with its head has no
// body.
func parseMessage(text string) (head, string, error) {
	text = strings.TrimSuffix(text, "\n") // the file's
	top, body, _ := strings.Cut(text, "\n\n")
	var h head
	for i, line := range strings.Split(strings.TrimSuffix(top, "\n"), "\n") {
		if i == 0 {
			h.line = line
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return head{}, "", fmt.Errorf("%q is not a header", line)
		}
		h.add(name, strings.TrimPrefix(value, " "))
	}
	return h, body, nil
}
