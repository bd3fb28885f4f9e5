package rawjson

import (
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// A Writer appends JSON to Buf and sets the commas. Its zero value is ready; it allocates only when
// Buf grows. It does not check that keys, values and brackets match. Methods return the Writer, so
// that a member is one expression: w.Key("id").String(id).
type Writer struct {
	Buf []byte
	// Flush, if set, is called with Buf whenever that has FlushSize bytes or more after a string or
	// raw value, and within long ones. It returns the buffer to use next.
	Flush func(buf []byte) []byte
	// Refer, if not 0, is the size from which strings that need no escapes and raw values are not
	// copied to Buf. The result is Pieces then, which aliases them.
	Refer int

	references []reference

	more bool // a value ended here: the next value of the same object or array needs a comma
}

// FlushSize is from how many bytes on a Writer flushes.
const FlushSize = 64 << 10

// A reference is a value that belongs between two bytes of Buf.
type reference struct {
	at    int // in Buf
	value []byte
}

// Pieces returns Buf with the values that it only refers to, in their places.
func (w *Writer) Pieces() [][]byte {
	pieces, from := make([][]byte, 0, 2*len(w.references)+1), 0
	for _, r := range w.references {
		pieces = append(pieces, w.Buf[from:r.at:r.at], r.value)
		from = r.at
	}
	return append(pieces, w.Buf[from:])
}

// open appends the comma that the next key or value needs.
func (w *Writer) open() {
	if w.more {
		w.Buf = append(w.Buf, ',')
	}
	w.more = true
}

// Key begins a member. The name is a word of the API and is not escaped.
func (w *Writer) Key(name string) *Writer {
	if w.more {
		w.Buf = append(w.Buf, ',')
	}
	w.Buf = append(append(append(w.Buf, '"'), name...), '"', ':')
	w.more = false
	return w
}

// AnyKey is Key for a name from outside, which is escaped.
func (w *Writer) AnyKey(name string) *Writer {
	w.open()
	w.Buf = append(AppendString(w.Buf, name), ':')
	w.more = false
	return w
}

// Object begins an object.
func (w *Writer) Object() *Writer {
	w.open()
	w.Buf, w.more = append(w.Buf, '{'), false
	return w
}

// EndObject ends an object.
func (w *Writer) EndObject() *Writer {
	w.Buf, w.more = append(w.Buf, '}'), true
	return w
}

// Array begins an array.
func (w *Writer) Array() *Writer {
	w.open()
	w.Buf, w.more = append(w.Buf, '['), false
	return w
}

// EndArray ends an array.
func (w *Writer) EndArray() *Writer {
	w.Buf, w.more = append(w.Buf, ']'), true
	return w
}

// String appends a string.
func (w *Writer) String(s string) *Writer {
	if w.Refer > 0 && len(s) >= w.Refer && isPlain(s) {
		return w.Form(s, true)
	}
	w.open()
	if w.Flush == nil {
		w.Buf = AppendString(w.Buf, s)
		return w
	}
	w.Buf = append(w.Buf, '"')
	for len(s) > FlushSize {
		n := FlushSize
		for n > FlushSize-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		w.Buf = AppendInner(w.Buf, s[:n])
		s = s[n:]
		w.flush()
	}
	w.Buf = append(AppendInner(w.Buf, s), '"')
	w.flush()
	return w
}

// Prefixed appends a string that consists of two texts, such as a data: URL. Of these, only s may be
// referred to.
func (w *Writer) Prefixed(prefix, s string) *Writer {
	w.open()
	w.Buf = AppendInner(append(w.Buf, '"'), prefix)
	if w.Refer > 0 && len(s) >= w.Refer && isPlain(s) {
		w.references = append(w.references, reference{len(w.Buf), unsafe.Slice(unsafe.StringData(s), len(s))})
	} else {
		w.Buf = AppendInner(w.Buf, s)
	}
	w.Buf = append(w.Buf, '"')
	return w
}

// Text appends a string that was gathered in pieces.
func (w *Writer) Text(t *Text) *Writer {
	w.open()
	w.Buf = t.AppendTo(w.Buf)
	return w
}

// Quoted appends a string that is escaped already, in one or more pieces and without its quotes.
func (w *Writer) Quoted(pieces ...[]byte) *Writer {
	w.open()
	w.Buf = append(w.Buf, '"')
	w.pieces(pieces)
	w.Buf = append(w.Buf, '"')
	return w
}

// Raw appends a value that is JSON already, in one or more pieces.
func (w *Writer) Raw(pieces ...[]byte) *Writer {
	w.open()
	w.pieces(pieces)
	return w
}

// Elements appends elements or members that are JSON already, with the commas between them, in one
// or more pieces. Without pieces it does nothing.
func (w *Writer) Elements(pieces ...[]byte) *Writer {
	for _, p := range pieces {
		if len(p) > 0 {
			return w.Raw(pieces...)
		}
	}
	return w
}

// Members appends members that are always the same.
func (w *Writer) Members(json string) *Writer {
	w.open()
	w.Buf = append(w.Buf, json...)
	return w
}

// Lit appends a text unchanged, such as the frame around a value. A comma is due behind it if it
// ends as a value does, with a bracket or a quote.
func (w *Writer) Lit(text string) *Writer {
	w.Buf = append(w.Buf, text...)
	if n := len(text); n > 0 {
		last := text[n-1]
		w.more = last == '}' || last == ']' || last == '"'
	}
	return w
}

// Int appends a whole number.
func (w *Writer) Int(n int64) *Writer {
	w.open()
	w.Buf = strconv.AppendInt(w.Buf, n, 10)
	return w
}

// Float appends a number, in the fewest digits that give the same number of so many bits (32 or 64)
// again.
func (w *Writer) Float(f float64, bits int) *Writer {
	w.open()
	w.Buf = strconv.AppendFloat(w.Buf, f, 'g', -1, bits)
	return w
}

// Bool appends true or false.
func (w *Writer) Bool(b bool) *Writer {
	w.open()
	w.Buf = strconv.AppendBool(w.Buf, b)
	return w
}

// Null appends null.
func (w *Writer) Null() *Writer { return w.Members("null") }

// StringOrNull appends a string, or null for an empty one.
func (w *Writer) StringOrNull(s string) *Writer {
	if s == "" {
		return w.Null()
	}
	return w.String(s)
}

func (w *Writer) pieces(pieces [][]byte) {
	if w.Refer > 0 && len(pieces) == 1 && len(pieces[0]) >= w.Refer {
		w.references = append(w.references, reference{len(w.Buf), pieces[0]})
		return
	}
	if w.Flush == nil && len(pieces) > 1 {
		size := 0
		for _, p := range pieces {
			size += len(p)
		}
		w.Buf = slices.Grow(w.Buf, size)
	}
	for _, p := range pieces {
		for w.Flush != nil && len(p) > FlushSize {
			w.Buf = append(w.Buf, p[:FlushSize]...)
			p = p[FlushSize:]
			w.flush()
		}
		w.Buf = append(w.Buf, p...)
		w.flush()
	}
}

func (w *Writer) flush() {
	if w.Flush != nil && len(w.Buf) >= FlushSize {
		w.Buf = w.Flush(w.Buf)
	}
}
