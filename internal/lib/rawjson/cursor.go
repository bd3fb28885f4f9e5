package rawjson

import (
	"bytes"
	"iter"
	"unsafe"
)

// A Kind is the sort of a JSON value.
type Kind uint8

// The zero Kind means that there is no value to read.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// A TypeError means that a value has another type, or does not fit the type, that the reader of a
// document requested.
type TypeError struct {
	Path string // such as contents[0].parts[1].text; "" is the whole text
	Want string // such as "a string"
	Got  string // such as "a number"
}

func (e *TypeError) Error() string {
	if e.Path == "" {
		return "want " + e.Want + ", found " + e.Got
	}
	return e.Path + ": want " + e.Want + ", found " + e.Got
}

// A Cursor reads a text that passed Check, once, from left to right. Each reading method takes the
// next value: the text's one value at first, and inside a loop over Object or Array the member or
// element that the loop has come to. There the loop body reads the value with one call, or does not
// and has it skipped.
//
// A null is the zero value of any requested type, never an error. After the first value of the
// wrong type (see Err) all loops end and all reads return zero values, so a caller may read a whole
// document and look at Err once.
//
// A loop may be left early, from any depth. The next read after it is of the value behind the
// object or array the loop was over; the bytes in between are looked at only when there is such a
// read.
//
// With a text that did not pass Check results are arbitrary, but no method panics or runs forever.
type Cursor struct {
	data []byte
	pos  int // where the value about to be read starts
	left int // the number of loops left early: their containers end before the next value
	err  error

	ends []span // of a Document, from pos on
	base int    // where data begins in its text

	scratch []byte // for unescaping text that is copied anyway
}

// NewCursor returns a Cursor before the one value of data.
func NewCursor(data []byte) *Cursor {
	return &Cursor{data: data}
}

// Reset puts the Cursor before the one value of other data. Its buffer for unescaping is used
// again.
func (c *Cursor) Reset(data []byte) {
	scratch := c.scratch[:0]
	if cap(scratch) > maxScratch {
		scratch = nil
	}
	*c = Cursor{data: data, scratch: scratch}
}

// maxScratch is how many bytes a Cursor may keep from one text for the next.
const maxScratch = 4 << 10

// Err returns the first *TypeError, or nil.
func (c *Cursor) Err() error { return c.err }

// Kind returns the kind of the value about to be read. It does not read it.
func (c *Cursor) Kind() Kind {
	if c.left > 0 {
		c.pos = skipOut(c.data, c.pos, c.left)
		c.left = 0
	}
	c.pos = skipSpace(c.data, c.pos)
	if c.pos >= len(c.data) {
		return None
	}
	return kindOf[c.data[c.pos]]
}

var kindOf = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// Object reads an object: the loop gets each key, unescaped. A key without escapes aliases the
// text.
func (c *Cursor) Object() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !c.enter(Object) {
			return
		}
		for more := c.more('}'); more; more = c.more('}') {
			if c.data[c.pos] != '"' {
				c.fail(Object.String(), "a malformed one")
				return
			}
			key := c.text()
			c.pos = skipSpace(c.data, c.pos)
			if c.pos >= len(c.data) || c.data[c.pos] != ':' {
				c.fail(Object.String(), "a malformed one")
				return
			}
			c.pos = skipSpace(c.data, c.pos+1)
			before := c.pos
			if !yield(key) {
				c.left++
				return
			}
			c.leave(before)
		}
	}
}

// Array reads an array: the loop gets each element's index.
func (c *Cursor) Array() iter.Seq[int] {
	return func(yield func(int) bool) {
		if !c.enter(Array) {
			return
		}
		for i := 0; c.more(']'); i++ {
			before := c.pos
			if !yield(i) {
				c.left++
				return
			}
			c.leave(before)
		}
	}
}

// Reserve returns list with room for one more element, and for all that are left where it has grown
// long: growing step by step would leave several times its memory behind as garbage. The room is at
// least a quarter of the list, since a list may be collected from many short arrays. It is called
// in a loop over an array, before the element is read.
func Reserve[T any](c *Cursor, list []T) []T {
	const long = 512
	if len(list) < cap(list) || len(list) < long {
		return list
	}
	return append(make([]T, 0, len(list)+max(c.rest(), len(list)/4)), list...)
}

// rest returns how many elements are left of the array that is read, with the one that comes next.
// Where the value is none of an array it is one.
func (c *Cursor) rest() int {
	n := 0
	for i := c.pos; c.left == 0; {
		i = skipSpace(c.data, skipValue(c.data, i))
		if n++; i >= len(c.data) || c.data[i] != ',' {
			break
		}
		i = skipSpace(c.data, i+1)
	}
	return max(n, 1)
}

// List is Array, but accepts a single value as a list of one, as JSON for protocol buffers allows.
func (c *Cursor) List() iter.Seq[int] {
	if kind := c.Kind(); kind == Array || kind == Null {
		return c.Array()
	}
	return func(yield func(int) bool) { yield(0) }
}

// enter steps behind the opening bracket and reports whether there is something to loop over.
func (c *Cursor) enter(want Kind) bool {
	if !c.next(want) {
		return false
	}
	c.pos++
	return true
}

// more moves to the next key or element of a container, or behind the closing bracket when there is
// none. In a text that passed Check commas occur only where something follows them, so they are
// spaces.
func (c *Cursor) more(closing byte) bool {
	if c.err != nil {
		return false
	}
	c.pos = skipSpace(c.data, c.pos)
	if c.pos < len(c.data) && c.data[c.pos] == ',' {
		c.pos = skipSpace(c.data, c.pos+1)
	}
	if c.pos >= len(c.data) {
		return false
	}
	if c.data[c.pos] == closing {
		c.pos++
		return false
	}
	return true
}

// leave moves behind the value that started at before, whether or not the loop body has read it, or
// a part of it.
func (c *Cursor) leave(before int) {
	if c.left > 0 {
		c.Kind()
	}
	if c.pos == before {
		c.pos = max(c.skip(before), min(before+1, len(c.data)))
	}
}

// next reports whether a value of the requested kind is about to be read. A null is read here, any
// other kind fails.
func (c *Cursor) next(want Kind) bool {
	if c.err != nil {
		return false
	}
	switch got := c.Kind(); got {
	case want:
		return true
	case Null:
		c.Skip()
		return false
	default:
		c.fail(want.String(), got.String())
		return false
	}
}

func (c *Cursor) fail(want, got string) {
	if c.err == nil {
		c.err = &TypeError{Path: pathAt(c.data, c.pos), Want: want, Got: got}
	}
	c.pos, c.left = len(c.data), 0
}

// Skip reads a value of any kind and drops it.
func (c *Cursor) Skip() {
	c.Kind()
	c.pos = c.skip(c.pos)
}

// Offset returns where in the text the value about to be read starts; after the last one, where
// that ended.
func (c *Cursor) Offset() int {
	if c.left > 0 {
		c.Kind()
	}
	return c.pos
}

// Span reads a value of any kind and returns its position in the text.
func (c *Cursor) Span() (start, end int) {
	c.Kind()
	start = c.pos
	c.pos = c.skip(c.pos)
	return start, c.pos
}

// Raw reads a value of any kind and returns its original bytes, which alias the text.
func (c *Cursor) Raw() []byte {
	start, end := c.Span()
	return c.data[start:end:end]
}

// String reads a string.
func (c *Cursor) String() string {
	if !c.next(String) {
		return ""
	}
	if raw, ok := c.shortText(); ok {
		return string(raw)
	}
	raw := c.rawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	if len(raw) >= longString { // it is not worth a second copy, nor scratch memory of its size
		text := appendUnescaped(make([]byte, 0, len(raw)+8), raw)
		return unsafe.String(unsafe.SliceData(text), len(text))
	}
	c.scratch = appendUnescaped(c.scratch[:0], raw)
	return string(c.scratch)
}

// longString is the length, with escapes, from which a string is unescaped in place instead of
// being copied to its exact size.
const longString = 4 << 10

// Bytes reads a string. Without escapes the result aliases the text.
func (c *Cursor) Bytes() []byte {
	if !c.next(String) {
		return nil
	}
	return c.text()
}

// Alias is Bytes for data that may be large and is not modified.
func (c *Cursor) Alias() string {
	data := c.Bytes()
	return unsafe.String(unsafe.SliceData(data), len(data))
}

// StringAlias is Alias, but empty for a value of another kind, which it does not read.
func (c *Cursor) StringAlias() string {
	if c.Kind() != String {
		return ""
	}
	return c.Alias()
}

// Bool reads a boolean.
func (c *Cursor) Bool() bool {
	if !c.next(Bool) {
		return false
	}
	value := c.data[c.pos] == 't'
	c.Skip()
	return value
}

// text reads the string at pos.
func (c *Cursor) text() []byte {
	if raw, ok := c.shortText(); ok {
		return raw
	}
	raw := c.rawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendUnescaped(nil, raw)
}

// shortText reads the string at pos if it is plain and short. Otherwise it reads nothing.
func (c *Cursor) shortText() (raw []byte, ok bool) {
	start, end := c.pos+1, shortText(c.data, c.pos+1)
	if end == 0 {
		return nil, false
	}
	c.pos = end
	return c.data[start : end-1 : end-1], true // appending to it must not write into the text
}

// rawText reads the string at pos and leaves its escapes.
func (c *Cursor) rawText() []byte {
	start := c.pos + 1
	c.pos = c.skip(c.pos)
	end := max(start, c.pos-1)
	return c.data[start:end:end] // appending to it must not write into the text
}
