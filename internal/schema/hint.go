package schema

import (
	"bytes"
	"unicode/utf8"

	"perigee/internal/rawjson"
)

// How much of what cannot be said in keywords is worth saying in words, in bytes.
const (
	maxHints  = 4096     // of one schema, without
	maxTold   = 64 << 10 // descriptions of what was merged into it
	maxScalar = 1000     // of one value
	maxNested = 200      // of one that is not read for its own sake
	mostHints = 64       // not bytes: how many
)

// hint adds words to the description. Hints are kept as JSON writes them, each followed by a zero byte.
func (f *frame) hint(text string) { f.hintBytes([]byte(text)) }

func (f *frame) hintBytes(text []byte) {
	start := len(f.hints)
	if len(text) > maxHints || start > maxTold || f.hinted >= mostHints {
		f.unsaid = true
		return
	}
	if isPlain(text) {
		f.hints = append(append(append(f.hints, '"'), text...), '"')
	} else {
		f.hints = rawjson.AppendString(f.hints, string(text))
	}
	f.closeHint(start)
}

// isPlain says whether JSON writes the text as it is.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// cutHint splits the first hint off.
func cutHint(hints []byte) (hint, rest []byte) {
	i := bytes.IndexByte(hints, 0)
	return hints[:i], hints[i+1:]
}

// closeHint takes the quotes off what was appended since start, and the whole of it if it was said before.
func (f *frame) closeHint(start int) {
	added := f.hints[start:]
	n := copy(added, added[1:len(added)-1])
	f.hints = append(f.hints[:start+n], 0)
	added = f.hints[start:]
	if n == 0 {
		f.hints = f.hints[:start]
		return
	}
	for before, rest := []byte(nil), f.hints[:start]; len(rest) > 0; {
		if before, rest = cutHint(rest); bytes.Equal(before, added[:n]) {
			f.hints = f.hints[:start]
			return
		}
	}
	f.hinted++
}

// hintValue adds a value after its label, and reports whether it was short enough to be said whole.
func (c *cleaner) hintValue(f *frame, label string, place int32, limit int) bool {
	c.scratch = append(c.scratch[:0], label...)
	var whole bool
	if c.scratch, whole = c.appendPlain(c.scratch, place, limit); !whole {
		return false
	}
	f.hintBytes(c.scratch)
	return true
}

// appendPlain appends a value as one would say it: strings without quotes, unless they are empty.
func (c *cleaner) appendPlain(dst []byte, place int32, limit int) (_ []byte, whole bool) {
	switch c.nodes[place].kind {
	case rawjson.String:
		text := c.text(place)
		if len(text) == 0 {
			return append(dst, `""`...), true
		}
		return append(dst, text...), len(text) <= limit
	case rawjson.Object, rawjson.Array:
		return c.appendCompact(dst, place, limit)
	}
	return append(dst, c.raw(place)...), true
}

// hintList adds the first values of a list after a label, and reports whether all were said.
func (c *cleaner) hintList(f *frame, label string, places []int32, most int) bool {
	text, whole := c.listed(label, places, most)
	f.hintBytes(text)
	return whole
}

// listed is the first values of a list after a label. It is good until the scratch is used again.
func (c *cleaner) listed(label string, places []int32, most int) (text []byte, whole bool) {
	list := append(c.scratch[:0], label...)
	for i, place := range places {
		mark := len(list)
		if i > 0 {
			list = append(list, ", "...)
		}
		if list, whole = c.appendPlain(list, place, maxScalar); !whole || len(list) > maxScalar || i == most {
			list = appendMore(list[:mark], len(places)-i, i > 0)
			c.scratch = list
			return list, false
		}
	}
	c.scratch = list
	return list, true
}

// appendMore says how many values were left out.
func appendMore(dst []byte, n int, separate bool) []byte {
	if separate {
		dst = append(dst, ", "...)
	}
	return append(appendInt(dst, n), " more"...)
}

// hintKinds says which types are acceptable where only one can be declared.
func (c *cleaner) hintKinds(f *frame, kinds []kind) {
	c.scratch = append(c.scratch[:0], "Accepts: "...)
	for i, k := range kinds {
		if i > 0 {
			c.scratch = append(c.scratch, " | "...)
		}
		c.scratch = append(c.scratch, kindNames[k]...)
	}
	f.hintBytes(c.scratch)
}

// appendDescription appends the description with its hints: in brackets behind the text, or the first one as the text.
func (c *cleaner) appendDescription(dst []byte, f *frame) []byte {
	base := c.base(f)
	dst = append(dst, '"')
	dst = append(dst, base...)
	empty := len(base) == 0
	for hint, rest := []byte(nil), f.hints; len(rest) > 0; {
		hint, rest = cutHint(rest)
		switch {
		case said(base, hint):
			continue
		case empty && string(hint) != "nullable":
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

// said reports whether a description has the hint already, as it has after an earlier cleaning.
func said(base, hint []byte) bool {
	for rest := base; len(rest) >= len(hint); {
		i := bytes.Index(rest, hint)
		if i < 0 {
			return false
		}
		at := len(base) - len(rest) + i
		end := at + len(hint)
		opened := at > 0 && base[at-1] == '(' && end < len(base) && base[end] == ')'
		alone := at == 0 && (end == len(base) || bytes.HasPrefix(base[end:], []byte(" (")))
		if opened || alone {
			return true
		}
		rest = rest[i+1:]
	}
	return false
}
