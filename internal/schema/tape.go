package schema

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"perigee/internal/rawjson"
)

// A tape is a JSON text as a list of its values, each with the places of the first value inside it and of the next
// beside it. Entry 0 is nobody, entry 1 the whole text.
type tape struct {
	data  []byte
	nodes []node
	odd   bool // some names have escapes
}

const root = 1

type node struct {
	kind    rawjson.Kind
	word    word // what its name means, if it is a member of an object and stands where keywords stand
	marks   marks
	named   kind  // what the value of "type" names
	height  int16 // what accepted found out about it
	count   int32 // members or elements
	nameEnd int32
	name    int32 // where the name starts, with its quotes; 0 in arrays
	start   int32
	end     int32
	first   int32
	next    int32
}

// marks are what is worth knowing about a value before looking into it.
type marks uint8

const (
	aliased       marks = 1 << iota // its name is the other spelling of a keyword
	looksRight                      // it has a member that only schemas have
	requiredTrue                    // its own "required" is true, which belongs to the object around it
	requiredFalse                   // the same, with false
	exact                           // it is the name of a type, spelled as it should be
	looksBare                       // it has members that are no keywords but look like schemas
	unescaped                       // it is a string that says what stands between its quotes
)

// read takes a text that passed rawjson.Check apart.
func (t *tape) read(data []byte) {
	t.data, t.odd = data, false
	t.nodes = append(t.nodes[:0], node{})
	if len(data) > 64<<10 { // then growing step by step would cost more than counting
		t.nodes = slices.Grow(t.nodes, valuesIn(data))
	}
	t.value(t.space(0), 0, 0)
}

func (t *tape) space(i int) int {
	if i < len(t.data) && t.data[i] > ' ' {
		return i
	}
	return t.spaces(i)
}

func (t *tape) spaces(i int) int {
	for i < len(t.data) && (t.data[i] == ' ' || t.data[i] == '\n' || t.data[i] == '\t' || t.data[i] == '\r') {
		i++
	}
	return i
}

// value reads the value at i, whose name stands at name, and returns its place on the tape and what comes behind.
func (t *tape) value(i, name, nameEnd int) (place int32, end int) {
	place = int32(len(t.nodes))
	t.nodes = append(t.nodes, node{start: int32(i), name: int32(name), nameEnd: int32(nameEnd)})
	kind := rawjson.Number
	switch t.data[i] {
	case '"':
		kind = rawjson.String
		if end = t.plain(i); end > 0 {
			t.nodes[place].marks = unescaped
		} else {
			end = t.skip(i)
		}
	case '{':
		kind, end = rawjson.Object, t.container(place, i+1, true)
	case '[':
		kind, end = rawjson.Array, t.container(place, i+1, false)
	case 't':
		kind, end = rawjson.Bool, i+len("true")
	case 'f':
		kind, end = rawjson.Bool, i+len("false")
	case 'n':
		kind, end = rawjson.Null, i+len("null")
	default:
		end = t.skip(i)
	}
	n := &t.nodes[place]
	n.kind, n.end = kind, int32(end)
	return place, end
}

// container reads what stands between the brackets of the value at place.
func (t *tape) container(place int32, i int, object bool) (end int) {
	var last, count int32
	for i = t.space(i); t.data[i] != '}' && t.data[i] != ']'; count++ {
		if t.data[i] == ',' {
			i = t.space(i + 1)
		}
		var child int32
		if object {
			start := i
			nameEnd := t.plain(i)
			if nameEnd == 0 {
				nameEnd = t.skip(i)
				t.odd = t.odd || bytes.IndexByte(t.data[i:nameEnd], '\\') >= 0
			}
			i = t.space(t.space(nameEnd) + 1) // behind the colon
			child, i = t.value(i, start, nameEnd)
			t.member(place, child)
		} else {
			child, i = t.value(i, 0, 0)
		}
		if last == 0 {
			t.nodes[place].first = child
		} else {
			t.nodes[last].next = child
		}
		last = child
		i = t.space(i)
	}
	t.nodes[place].count = count
	return i + 1
}

// member looks up the name of a member, and marks the object around it.
func (t *tape) member(object, member int32) {
	m, o := &t.nodes[member], &t.nodes[object]
	w, alias := lookup(t.nameOf(member))
	m.word = w
	if alias {
		m.marks |= aliased
	}
	switch {
	case w == wUnknown:
		if m.kind == rawjson.Object && m.marks&(looksRight|looksBare) != 0 {
			o.marks |= looksBare
		}
	case m.kind == words[w].proves:
		o.marks |= looksRight
	case w == wType && m.kind == rawjson.String:
		if t.nameKind(m, t.text(member)); m.named != kindUnknown {
			o.marks |= looksRight
		}
	case w == wRequired && t.isTrue(member):
		o.marks |= requiredTrue
	case w == wRequired && t.isFalse(member):
		o.marks |= requiredFalse
	}
}

// nameKind remembers which type a name is of.
func (t *tape) nameKind(n *node, name []byte) {
	if n.named = plainKind(name); n.named != kindUnknown {
		n.marks |= exact
	} else {
		n.named = kindNamed(name)
	}
}

// skip returns the end of the string or number that starts at i.
func (t *tape) skip(i int) int {
	_, end := rawjson.NewCursor(t.data[i:]).Span()
	return i + end
}

// plain is skip for strings of less than sixteen bytes without escapes, which most names are, and 0 for others. It
// looks at eight bytes at once: taking one from a byte that is zero turns its top bit on, and the lowest one counts.
func (t *tape) plain(i int) (end int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i++
	for range 2 {
		if i+8 > len(t.data) {
			break
		}
		x := binary.LittleEndian.Uint64(t.data[i:])
		quote, escape := x^ones*'"', x^ones*'\\'
		found := ((quote-ones)&^quote | (escape-ones)&^escape) & tops
		if found == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(found) / 8; t.data[i] == '"' {
			return i + 1
		}
		break
	}
	return 0
}

// raw is the value as it stands in the text.
func (t *tape) raw(place int32) []byte {
	n := &t.nodes[place]
	return t.data[n.start:n.end:n.end]
}

// rawName is the name of a member as it stands in the text, with its quotes.
func (t *tape) rawName(place int32) []byte {
	n := &t.nodes[place]
	return t.data[n.name:n.nameEnd:n.nameEnd]
}

// nameOf is the name of a member.
func (t *tape) nameOf(place int32) []byte {
	if n := &t.nodes[place]; !t.odd {
		return t.data[n.name+1 : n.nameEnd-1]
	}
	return unquote(t.rawName(place))
}

// text is what a string says, and any other value as it stands.
func (t *tape) text(place int32) []byte {
	n := &t.nodes[place]
	switch {
	case n.marks&unescaped != 0:
		return t.data[n.start+1 : n.end-1]
	case n.kind == rawjson.String:
		return unquote(t.raw(place))
	}
	return t.raw(place)
}

func unquote(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return rawjson.NewCursor(quoted).Bytes()
}

// isTrue says whether the value is the literal true.
func (t *tape) isTrue(place int32) bool {
	return t.nodes[place].kind == rawjson.Bool && t.data[t.nodes[place].start] == 't'
}

func (t *tape) isFalse(place int32) bool {
	return t.nodes[place].kind == rawjson.Bool && t.data[t.nodes[place].start] == 'f'
}

// appendCompact appends a value without the space between its parts, and gives up beyond limit bytes.
func (t *tape) appendCompact(dst []byte, place int32, limit int) (_ []byte, whole bool) {
	raw := t.raw(place)
	size := len(dst) + limit
	for i := 0; i < len(raw); {
		switch raw[i] {
		case ' ', '\n', '\t', '\r':
			i++
			continue
		case '"':
			end := t.skip(int(t.nodes[place].start)+i) - int(t.nodes[place].start)
			dst = append(dst, raw[i:end]...)
			i = end
		default:
			dst = append(dst, raw[i])
			i++
		}
		if len(dst) > size {
			return dst, false
		}
	}
	return dst, true
}

// element returns the element of an array that a step of a reference names.
func (t *tape) element(array int32, step []byte) int32 {
	n, err := strconv.Atoi(string(step))
	if err != nil || n < 0 || n >= int(t.nodes[array].count) {
		return 0
	}
	place := t.nodes[array].first
	for range n {
		place = t.nodes[place].next
	}
	return place
}

// clip cuts text to at most n bytes, not inside a character.
func clip(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
