package redact

import (
	"bytes"
	"slices"
	"strings"
)

// ellipses mark where a text was cut.
var ellipses = []string{"…", "..."}

// Clipped returns a text without secrets that was cut before: a name in a note, or a value that an
// error quotes. In addition to AppendAll it replaces the beginning of a secret before an ellipsis
// and the end of one behind it, if they have at least four characters.
func (r *Redactor) Clipped(text string) string {
	if !r.hasSecrets() {
		return text
	}
	out := r.AppendAll(nil, []byte(text))
	for _, ellipsis := range ellipses {
		for at := 0; ; {
			i := bytes.Index(out[at:], []byte(ellipsis))
			if i < 0 {
				break
			}
			at += i
			end := len(bytes.TrimRight(out[:at], `"'`))
			begin := r.index().cutOff(out[:end])
			behind := at + len(ellipsis)
			tail := behind + r.index().cutOn(out[behind:])
			if tail > behind {
				out = slices.Replace(out, behind, tail, []byte(r.mark)...)
			}
			if at = behind; begin < end {
				out = slices.Replace(out, begin, end, []byte(r.mark)...)
				at += len(r.mark) - (end - begin)
			}
		}
	}
	return string(out)
}

// BrokenOff returns a text without secrets that may end in the middle of one. It replaces the beginning
// of a secret at the end, if that has at least four characters. It does not change the memory of the
// text.
func (r *Redactor) BrokenOff(text []byte) []byte {
	if !r.hasSecrets() {
		return text
	}
	if at := r.index().cutOff(text); at < len(text) {
		return append(text[:at:at], r.mark...)
	}
	return text
}

// cutOn returns the size of the end of a secret that a text begins with; 0 if there is none, or it
// has less than four characters.
func (x *index) cutOn(text []byte) int {
	forms := x.reversed()
	for n := min(len(text), x.longest); n >= gram; n-- {
		end := reverse(string(text[:n]))
		if at, _ := slices.BinarySearch(forms, end); at < len(forms) && strings.HasPrefix(forms[at], end) {
			return n
		}
	}
	return 0
}

func reverse(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}
