package filetool

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// A charset is how the characters of a text file are stored.
type charset string

const (
	utf8Plain charset = ""
	utf8BOM   charset = "utf-8-bom"
	utf16LE   charset = "utf-16le"
	utf16BE   charset = "utf-16be"
)

var boms = map[charset]string{utf8BOM: "\xef\xbb\xbf", utf16LE: "\xff\xfe", utf16BE: "\xfe\xff"}

// detect returns the charset that the first bytes of a file announce. UTF-32 is not supported and
// is binary.
func detect(head []byte) charset {
	if bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")) {
		return utf8Plain // which is invalid
	}
	for set, bom := range boms {
		if bytes.HasPrefix(head, []byte(bom)) {
			return set
		}
	}
	return utf8Plain
}

// A decoder turns the bytes of a text file into UTF-8, piece by piece.
type decoder struct {
	set     charset
	started bool
	rest    []byte // the beginning of a character
	out     []byte
}

// decode returns the characters that are complete. The result is valid until the next call. It is
// not ok if the file is not text: invalid in its charset, or with a NUL.
func (d *decoder) decode(piece []byte, end bool) (text []byte, ok bool) {
	if len(d.rest) > 0 {
		piece = append(d.rest, piece...)
	}
	if !d.started {
		if len(piece) < 4 && !end {
			d.rest = bytes.Clone(piece)
			return nil, true
		}
		d.set, d.started = detect(piece), true
		piece = piece[len(boms[d.set]):]
	}
	var used int
	if d.set == utf16LE || d.set == utf16BE {
		text, used, ok = d.decode16(piece)
	} else {
		text, used, ok = decode8(piece)
	}
	d.rest = bytes.Clone(piece[used:])
	if !ok || end && len(d.rest) > 0 || bytes.IndexByte(text, 0) >= 0 {
		return nil, false
	}
	return text, true
}

func decode8(piece []byte) (text []byte, used int, ok bool) {
	if utf8.Valid(piece) {
		return piece, len(piece), true
	}
	end := len(piece)
	for i := 1; i < utf8.UTFMax && i <= len(piece); i++ { // an incomplete character at the end
		if start := len(piece) - i; utf8.RuneStart(piece[start]) {
			if !utf8.FullRune(piece[start:]) {
				end = start
			}
			break
		}
	}
	return piece[:end], end, utf8.Valid(piece[:end])
}

func (d *decoder) decode16(piece []byte) (text []byte, used int, ok bool) {
	order := binary.ByteOrder(binary.LittleEndian)
	if d.set == utf16BE {
		order = binary.BigEndian
	}
	d.out = d.out[:0]
	for used+2 <= len(piece) {
		r := rune(order.Uint16(piece[used:]))
		size := 2
		if utf16.IsSurrogate(r) {
			if used+4 > len(piece) && r < 0xdc00 {
				break
			}
			if used+4 <= len(piece) {
				r = utf16.DecodeRune(r, rune(order.Uint16(piece[used+2:])))
			}
			if size = 4; r == utf8.RuneError || utf16.IsSurrogate(r) {
				return nil, used, false
			}
		}
		d.out = utf8.AppendRune(d.out, r)
		used += size
	}
	return d.out, used, true
}

// encode returns a text in a charset, with its byte order mark.
func encode(text string, set charset) []byte {
	switch set {
	case utf8Plain:
		return []byte(text)
	case utf8BOM:
		return []byte(boms[set] + text)
	}
	order := binary.AppendByteOrder(binary.LittleEndian)
	if set == utf16BE {
		order = binary.BigEndian
	}
	out := []byte(boms[set])
	for _, r := range text {
		if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
			out = order.AppendUint16(order.AppendUint16(out, uint16(r1)), uint16(r2))
		} else {
			out = order.AppendUint16(out, uint16(r))
		}
	}
	return out
}

// lineEnds counts how the lines of a text end.
type lineEnds struct {
	crlf, lf, cr int
	pending      bool // the last character was a CR
}

func (l *lineEnds) add(text []byte) {
	if len(text) == 0 {
		return
	}
	if l.pending && text[0] != '\n' {
		l.cr++
	}
	crlf := bytes.Count(text, []byte("\r\n"))
	lf, cr := bytes.Count(text, []byte("\n"))-crlf, bytes.Count(text, []byte("\r"))-crlf
	if l.pending && text[0] == '\n' {
		crlf, lf = crlf+1, lf-1
	}
	if l.pending = text[len(text)-1] == '\r'; l.pending {
		cr--
	}
	l.crlf, l.lf, l.cr = l.crlf+crlf, l.lf+lf, l.cr+cr
}

// allCRLF reports whether every line of the text ends in CR LF, and there is one.
func (l *lineEnds) allCRLF() bool { return l.crlf > 0 && l.lf == 0 && l.cr == 0 && !l.pending }
