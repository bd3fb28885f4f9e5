package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// gram is how many bytes of a text are looked up together, and maxStride how far apart these places
// are at most.
const (
	gram      = 4
	maxStride = 8
)

// An index finds many secrets in a text in one pass. It looks at four bytes in every stride bytes
// of the text: each form of a secret has entries for the four bytes at stride consecutive offsets,
// so that one of them is looked at wherever the form begins. A bitmap excludes almost all places.
type index struct {
	stride   int
	bits     []uint64 // of the grams that forms have, by their hash
	shift    uint     // of hashes
	entries  []entry  // by the hash of their gram
	first    []int32  // of the entries of a hash, by its upper bits; one more for the end
	buckets  uint     // how far hashes are shifted for first
	forms    []form
	words    [][]byte        // short secrets, which count where they are words
	longest  int             // of all forms, in bytes
	sorted   func() []string // the forms in texts without escapes
	reversed func() []string // the same from their ends
	inForms  [256]bool
	escaped  [256]bool // characters that may follow a backslash in an escape
}

// A form is one way to write a secret, or a part of one that shows where to look for the whole.
type form struct {
	text           string
	plain, decoded bool // searched for in the original and in the unescaped text
	// whole is the form that text is a part of, which may have line breaks between its characters,
	// or "" if text is the whole form.
	whole string
	at    int // where in it
}

// size returns how many bytes of a text a form takes at most, without escapes.
func (f *form) size() int {
	if f.whole == "" {
		return len(f.text)
	}
	return len(f.whole) + (len(f.whole)/minLine+1)*maxBreak
}

// An entry is a form that has a gram at an offset.
type entry struct {
	gram         uint32
	form, offset int32
}

// newIndex returns an index of secrets in all the forms that Stream documents.
func newIndex(secrets []string) *index {
	x := &index{stride: maxStride}
	secrets = slices.Compact(slices.Sorted(slices.Values(secrets)))
	for _, s := range secrets {
		if len(s) < shortSecret {
			x.words = append(x.words, []byte(s))
			x.longest = max(x.longest, len(s)+1) // with the byte behind it
			continue
		}
		x.forms = append(x.forms, form{text: s, plain: true, decoded: true})
		for _, encoded := range base64Forms(s) {
			x.forms = append(x.forms, lineForms(encoded)...)
		}
	}
	for _, f := range x.forms {
		for i, text := 0, cmp.Or(f.whole, f.text); i < len(text); i++ {
			x.inForms[text[i]] = true
		}
	}
	for c := range x.escaped {
		x.escaped[c] = x.inForms['\\'] || c == '\\' || c == 'u' || strings.IndexByte("/\"'", byte(c)) >= 0 && x.inForms[c]
	}
	for c, space := range escapedSpace {
		x.escaped[c] = x.escaped[c] || space != 0 && x.inForms[space]
	}
	var memory [2]decodedText
	for i := range x.forms {
		f := &x.forms[i]
		if !strings.ContainsAny(f.text, "\\% \n\t\r") {
			continue
		}
		if d := x.decode(&memory, []byte(f.text), true); string(d.text) != f.text {
			f.decoded = false
			if len(d.text) >= gram {
				x.forms = append(x.forms, form{text: string(d.text), decoded: true})
			}
		}
	}
	x.fill()
	// Most indexes need neither.
	x.sorted = sync.OnceValue(func() []string { return x.sort(func(text string) string { return text }) })
	x.reversed = sync.OnceValue(func() []string { return x.sort(reverse) })
	return x
}

// sort returns the forms in texts without escapes, each written in some way.
func (x *index) sort(written func(string) string) (list []string) {
	for _, f := range x.forms {
		if f.decoded {
			list = append(list, written(cmp.Or(f.whole, f.text)))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// cutOff returns the start of a secret that the end of a text cuts off, or the length of the text
// if there is none, or if it has less than four characters. Secrets of less than eight characters
// are not considered.
func (x *index) cutOff(text []byte) int {
	from := max(0, len(text)-x.longest*maxEscape)
	d := x.decode(new([2]decodedText), text[from:], false)
	for i := max(0, len(d.text)-x.longest); i+gram <= len(d.text); i++ {
		forms, end := x.sorted(), string(d.text[i:])
		if at, _ := slices.BinarySearch(forms, end); at < len(forms) && strings.HasPrefix(forms[at], end) {
			return from + int(d.start[i])
		}
	}
	return len(text)
}

// fill makes the bitmap and the entries.
func (x *index) fill() {
	for _, f := range x.forms {
		x.longest = max(x.longest, f.size())
		x.stride = min(x.stride, len(f.text)-gram+1)
	}
	size := uint(10) // of 1,024 bits
	for 1<<size < 16*len(x.forms)*x.stride && size < 24 {
		size++
	}
	x.bits, x.shift, x.buckets = make([]uint64, 1<<size/64), 32-size, 4
	count := make([]int32, 1<<(size-x.buckets)+1)
	x.eachGram(func(e entry) {
		h := x.hash(e.gram)
		x.bits[h/64] |= 1 << (h % 64)
		count[h>>x.buckets+1]++
	})
	for i := 1; i < len(count); i++ {
		count[i] += count[i-1]
	}
	x.first, x.entries = slices.Clone(count), make([]entry, count[len(count)-1])
	x.eachGram(func(e entry) {
		next := &count[x.hash(e.gram)>>x.buckets]
		x.entries[*next] = e
		*next++
	})
}

// eachGram calls f with the entries of all forms. The last bytes of secrets are used, because many
// secrets share a prefix.
func (x *index) eachGram(f func(e entry)) {
	for i, form := range x.forms {
		for offset := len(form.text) - gram - x.stride + 1; offset <= len(form.text)-gram; offset++ {
			f(entry{binary.LittleEndian.Uint32([]byte(form.text[offset : offset+gram])), int32(i), int32(offset)})
		}
	}
}

func (x *index) hash(g uint32) uint32 { return g * 0x9E3779B1 >> x.shift }

// base64Forms returns the base64 encodings of a secret inside of any text. Characters that depend
// on the neighboring bytes are left out.
func base64Forms(secret string) (forms []string) {
	for shift := range 3 {
		padded := strings.Repeat("\x00", shift) + secret
		first := (shift*8 + 5) / 6  // the first character that has only bits of the secret
		last := len(padded) * 8 / 6 // behind the last one
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if form := encoding.EncodeToString([]byte(padded))[first:last]; !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// A span is a part of a text.
type span struct{ start, end int }

// A search is the memory of a search in a text, for the next one.
type search struct {
	spans   []span
	decoded [2]decodedText
}

var searches = sync.Pool{New: func() any { return new(search) }}

// find returns the positions of secrets in a text, in order and without overlaps, and up to where
// the spans are complete: a secret that begins behind that may be cut off by the end of the text.
// before are the two bytes before the text. final is true if nothing follows the text.
func (x *index) find(s *search, text []byte, before [2]byte, final bool) (spans []span, complete int) {
	found, escaped := x.scan(s.spans[:0], text, false)
	for _, word := range x.words {
		found = findWord(found, text, word, before, final)
	}
	complete = len(text) - (x.longest - 1) - maxEscape
	if len(x.forms) > 0 && (escaped || x.inForms[' ']) {
		d := x.decode(&s.decoded, text, final)
		n := len(found)
		found, _ = x.scan(found, d.text, true)
		for i := range found[n:] {
			at := &found[n+i]
			*at = span{int(d.start[at.start]), int(d.end[at.end-1])}
		}
		if complete = 0; len(d.text) >= x.longest {
			complete = int(d.start[len(d.text)-x.longest+1])
		}
	}
	if complete = max(complete, 0); final {
		complete = len(text)
	}
	s.spans = found
	return merge(found), complete
}

// merge sorts spans and makes one of those that overlap.
func merge(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	last := 0
	for _, s := range spans[1:] {
		if s.start < spans[last].end {
			spans[last].end = max(spans[last].end, s.end)
			continue
		}
		last++
		spans[last] = s
	}
	return spans[:last+1]
}

// scan appends where the forms for plain or decoded texts are.
func (x *index) scan(spans []span, text []byte, decoded bool) (found []span, escaped bool) {
	if len(x.forms) == 0 {
		return spans, false
	}
	i := 0
	for ; i+8 <= len(text); i += x.stride {
		w := binary.LittleEndian.Uint64(text[i:])
		if h := x.hash(uint32(w)); x.bits[h/64]&(1<<(h%64)) != 0 {
			spans = x.verify(spans, text, i, uint32(w), decoded)
		}
		if !escaped && !decoded && hasByte(w, '\\')|hasByte(w, '%') != 0 {
			escaped = x.hasEscape(text, i, i+8)
		}
	}
	if !escaped && !decoded && i < len(text) {
		escaped = x.hasEscape(text, i, len(text))
	}
	for ; i+gram <= len(text); i += x.stride {
		g := binary.LittleEndian.Uint32(text[i:])
		if h := x.hash(g); x.bits[h/64]&(1<<(h%64)) != 0 {
			spans = x.verify(spans, text, i, g, decoded)
		}
	}
	return spans, escaped
}

// hasByte returns 0 if no byte of a word is c.
func hasByte(w uint64, c byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= ones * uint64(c)
	return (w - ones) &^ w & highs
}

// verify compares the text around a gram with the forms that have it.
func (x *index) verify(spans []span, text []byte, at int, g uint32, decoded bool) []span {
	bucket := x.hash(g) >> x.buckets
	for _, e := range x.entries[x.first[bucket]:x.first[bucket+1]] {
		if e.gram != g {
			continue
		}
		f := &x.forms[e.form]
		start := at - int(e.offset)
		end := start + len(f.text)
		if (f.plain && !decoded || f.decoded && decoded) && start >= 0 && end <= len(text) && string(text[start:end]) == f.text {
			if at, ok := f.extend(text, span{start, end}); ok {
				spans = append(spans, at)
			}
		}
	}
	return spans
}

// findWord appends where a short secret is a word of its own. - and _ count as letters, and the
// letter of an escape such as \n does not.
func findWord(spans []span, text []byte, word []byte, before [2]byte, final bool) []span {
	at := func(i int) byte {
		switch {
		case i >= 0:
			return text[i]
		case i >= -2:
			return before[2+i]
		}
		return 0
	}
	for from := 0; ; {
		i := bytes.Index(text[from:], word)
		if i < 0 {
			return spans
		}
		start := from + i
		end := start + len(word)
		from = start + 1
		switch {
		case isWordByte(at(start-1)) && at(start-2) != '\\':
		case end == len(text) && !final: // the next byte is not known; Stream searches again
		case end < len(text) && isWordByte(text[end]):
		default:
			spans = append(spans, span{start, end})
		}
	}
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || c == '-' || c == '_'
}

// Bounds of escapes: backslashes before one character (three levels of JSON in JSON), and a percent
// sign that was encoded twice.
const (
	maxBackslashes = 7
	maxEscape      = maxBackslashes + len("u0041")
)

// hasEscape reports whether an escape of a character that occurs in secrets begins between from and
// to.
func (x *index) hasEscape(text []byte, from, to int) bool {
	for i := from; i < to; i++ {
		if c := text[i]; c != '\\' && c != '%' || c == '\\' && i+1 < len(text) && !x.escaped[text[i+1]] {
			continue
		}
		if u := x.unitAt(text, i, false); u.size > 1 {
			return true
		}
	}
	return false
}

// A unit is a character of a text, plain or escaped.
type unit struct {
	char    rune
	unicode bool // char is a code point, else a byte
	size    int  // in the text
	partial bool // it is cut off by the end of the text
}

// unitAt decodes the character at i. Escapes of characters that do not occur in secrets are not
// decoded. An escape that the end of the text cuts off is partial, unless the text is final.
func (x *index) unitAt(text []byte, i int, final bool) unit {
	switch text[i] {
	case '\\':
		return x.backslashed(text, i, final)
	case '%':
		return x.percent(text, i, final)
	}
	return unit{char: rune(text[i]), size: 1}
}

// escapedSpace has the line breaks and the tab by the letters of their escapes.
var escapedSpace = [256]byte{'n': '\n', 't': '\t', 'r': '\r'}

// backslashed decodes \u0041, \/, \" and \n with up to maxBackslashes backslashes.
func (x *index) backslashed(text []byte, i int, final bool) unit {
	literal := unit{char: '\\', size: 1}
	n := 1
	for n <= maxBackslashes && i+n < len(text) && text[i+n] == '\\' {
		n++
	}
	if n > maxBackslashes {
		return literal // the last ones of them are looked at again
	}
	rest := text[i+n:]
	if len(rest) == 0 {
		literal.partial = !final
		return literal
	}
	c := rune(rest[0])
	if space := escapedSpace[c]; space != 0 {
		c = rune(space)
	}
	if digits := rest[1:min(5, len(rest))]; c == 'u' && isHex(digits) {
		if len(digits) < 4 {
			literal.partial = !final
			return literal
		}
		if r := rune(hexValue(digits)); x.occurs(r) {
			return unit{char: r, size: n + 5, unicode: true}
		}
		return literal
	}
	if x.escaped[rest[0]] && rest[0] != '\\' && rest[0] != 'u' || x.inForms['\\'] && c < utf8.RuneSelf {
		return unit{char: c, size: n + 1}
	}
	return literal
}

// percent decodes %41, and %2541 and %252541, which are the same encoded again.
func (x *index) percent(text []byte, i int, final bool) unit {
	literal := unit{char: '%', size: 1}
	rest := text[i+1:]
	n := 0
	for n < 4 && len(rest) >= n+2 && string(rest[n:n+2]) == "25" {
		digits := rest[n+2 : min(n+4, len(rest))]
		if len(digits) < 2 && isHex(digits) {
			literal.partial = !final
		}
		if len(digits) < 2 || !isHex(digits) {
			break
		}
		n += 2
	}
	digits := rest[n:min(n+2, len(rest))]
	switch {
	case literal.partial || !isHex(digits):
	case len(digits) < 2:
		literal.partial = !final
	case x.inForms[hexValue(digits)]:
		return unit{char: rune(hexValue(digits)), size: 1 + n + 2}
	case n > 0 && x.inForms['%']:
		return unit{char: '%', size: len("%25")}
	}
	return literal
}

// occurs reports whether a character is in one of the forms.
func (x *index) occurs(c rune) bool {
	if c < utf8.RuneSelf {
		return x.inForms[c]
	}
	var b [utf8.UTFMax]byte
	utf8.EncodeRune(b[:], c)
	return x.inForms[b[0]]
}

// decodedText is a text without escapes, and where each byte of it was.
type decodedText struct {
	text       []byte
	start, end []int32
}

// decode removes the escapes. If secrets have spaces, a space is +, as in forms. If they have
// backslashes, these are left out, because JSON has twice as many of them in each level, and a line
// break or a tab is the letter of its escape: \t may be a tab, or a backslash and a t. If they have
// backslashes or percent signs, the decoded text may be an escape of the secret's own, and is
// decoded again, as the secret is. Decoding ends before a partial escape.
func (x *index) decode(into *[2]decodedText, text []byte, final bool) *decodedText {
	d := &into[0]
	x.decodeOnce(d, text, final)
	for again := 0; again < maxDecoded && (x.inForms['\\'] || x.inForms['%']) && len(d.text) < len(text); again++ {
		text = d.text
		next := &into[1-again%2]
		x.decodeOnce(next, text, final)
		for i := range next.text {
			next.start[i], next.end[i] = d.start[next.start[i]], d.end[next.end[i]-1]
		}
		d = next
	}
	return d
}

// maxDecoded is how often a text is decoded again.
const maxDecoded = 6

func (x *index) decodeOnce(into *decodedText, text []byte, final bool) {
	into.text, into.start, into.end = into.text[:0], into.start[:0], into.end[:0]
	for i := 0; i < len(text); {
		u := x.unitAt(text, i, final)
		if u.partial {
			break
		}
		into.add(x, u, i)
		i += u.size
	}
}

func (d *decodedText) add(x *index, u unit, at int) {
	switch {
	case u.char == ' ' && x.inForms[' ']:
		u.char = '+'
	case !x.inForms['\\']:
	case u.char == '\\':
		return
	case u.char == '\n':
		u.char = 'n'
	case u.char == '\t':
		u.char = 't'
	case u.char == '\r':
		u.char = 'r'
	}
	n := len(d.text)
	if u.unicode {
		d.text = utf8.AppendRune(d.text, u.char)
	} else {
		d.text = append(d.text, byte(u.char))
	}
	for range len(d.text) - n {
		d.start, d.end = append(d.start, int32(at)), append(d.end, int32(at+u.size))
	}
}
