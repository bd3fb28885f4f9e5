package schema

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/lib/rawjson"
)

// Limits in bytes for hints, which repeat in the description what keywords cannot express.
const (
	maxHint   = 4096     // of one hint
	maxHints  = 64 << 10 // of all hints and merged descriptions of one schema
	maxScalar = 1000     // of one value
	maxNested = 200      // of one that contains values or schemas
	mostHints = 64       // not bytes: how many
)

// hint adds a text to the description.
func (f *frame) hint(text string) {
	if len(text) > maxHint || f.hintSize > maxHints || len(f.hints) >= mostHints {
		f.hintLost = true
		return
	}
	f.addHint(escape(text))
}

// addHint adds a text as JSON writes it, unless it is there already.
func (f *frame) addHint(escaped string) {
	if escaped != "" && !slices.Contains(f.hints, escaped) {
		f.hints = append(f.hints, escaped)
		f.hintSize += len(escaped) + 1
	}
}

func escape(text string) string { return string(rawjson.AppendInner(nil, text)) }

// hintValue adds a value after its label, and reports whether it was short enough to be repeated.
func (c *cleaner) hintValue(f *frame, label string, value *node, limit int) bool {
	text, ok := value.plain(limit)
	if ok {
		f.hint(label + text)
	}
	return ok
}

// hintList adds the first values of a list after a label, and reports whether these are all.
func (f *frame) hintList(label string, values []*node, most int) bool {
	text, whole := listed(label, values, most)
	f.hint(text)
	return whole
}

// listed returns the first values of a list after a label, and whether these are all.
func listed(label string, values []*node, most int) (text string, whole bool) {
	text = label
	for i, v := range values {
		separator := ""
		if i > 0 {
			separator = ", "
		}
		value, short := v.plain(maxScalar)
		if !short || len(text)+len(separator)+len(value) > maxScalar || i == most {
			return text + separator + more(len(values)-i), false
		}
		text += separator + value
	}
	return text, true
}

// more states how many values were left out.
func more(n int) string { return strconv.Itoa(n) + " more" }

// hintKinds adds the types that are acceptable where only one can be declared.
func (f *frame) hintKinds(kinds []kind) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = kindNames[k]
	}
	f.hint("Accepts: " + strings.Join(names, " | "))
}

// appendDescription appends the description with its hints: in parentheses after the text, or the
// first one as the text.
func (f *frame) appendDescription(dst []byte) []byte {
	base := f.base()
	dst = append(append(dst, '"'), base...)
	empty := len(base) == 0
	for _, hint := range f.hints {
		switch {
		case hasHint(base, hint):
			continue
		case empty && hint != "nullable":
			dst = append(dst, hint...)
		case empty:
			dst = append(append(append(dst, '('), hint...), ')')
		default:
			dst = append(append(append(dst, " ("...), hint...), ')')
		}
		empty = false
	}
	return append(dst, '"')
}

// hasHint reports whether a description has the hint already, as it has after an earlier cleaning.
func hasHint(base []byte, hint string) bool {
	return len(base) >= len(hint) && (string(base) == hint ||
		bytes.HasPrefix(base, []byte(hint+" (")) || bytes.Contains(base, []byte("("+hint+")")))
}
