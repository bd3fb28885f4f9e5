//go:build unix

package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// FuzzLongStrings compares three ways to look at a string of many blocks: passing blocks, one block
// after the other, and one byte after the other. All find the same mistake at the same place, and
// what is right is what encoding/json reads.
func FuzzLongStrings(f *testing.F) {
	f.Add([]byte("ä中🙂\\n\\\\\\/"), uint8(60), uint8(70), uint8(10), true)
	f.Add([]byte("\xf0\x9f\x99"), uint8(62), uint8(0), uint8(200), true)
	f.Add([]byte(`\ud83d\ude42`+"\xe2\x82"), uint8(63), uint8(128), uint8(200), true)
	f.Add([]byte("\xe0"), uint8(63), uint8(200), uint8(1), false)
	f.Add([]byte("\\"), uint8(63), uint8(3), uint8(131), true)
	f.Fuzz(func(t *testing.T, piece []byte, before, after, times uint8, closed bool) {
		text := append([]byte{'"'}, bytes.Repeat([]byte("p"), int(before))...)
		text = append(text, bytes.Repeat(piece, min(int(times), 2000/(len(piece)+1)))...)
		text = append(text, bytes.Repeat([]byte("q"), int(after))...)
		if closed {
			text = append(text, '"')
		}
		compareWays(t, text)
		if closed { // the same name twice, if it is one
			twice := append(append([]byte{'{'}, text...), `:1,`...)
			compareWays(t, append(append(twice, text...), `:2}`...))
		}
	})
}

// A name of many blocks is the same name with and without escapes, wherever they stand in it.
func TestLongNamesAreComparedByWhatTheyMean(t *testing.T) {
	for at := range 300 {
		plain := strings.Repeat("n", at) + "/" + strings.Repeat("m", 300-at)
		for _, escape := range []string{`\/`, `\u002f`} {
			text := `{"` + plain + `":1,"` + strings.Replace(plain, "/", escape, 1) + `":2}`
			if err := Check([]byte(text)); err == nil || !strings.Contains(err.Error(), "duplicate key") {
				t.Fatalf("Check(%q): %v, want a duplicate key", text, err)
			}
		}
	}
}

// A text may end with the last byte of memory that there is, and begin with the first.
func TestNothingBesideTheTextIsRead(t *testing.T) {
	page := pageAlone(t)
	text := `"` + strings.Repeat(`ab\n中🙂ä\\`, 20) + `"`
	for n := range len(text) + 1 {
		for _, piece := range []string{text[:n], text[len(text)-n:], `"` + strings.Repeat("x", n), `"` + strings.Repeat("\xf0", n)} {
			last, first := page[len(page)-len(piece):], page[:len(piece):len(piece)]
			for _, at := range [][]byte{last, first} {
				copy(at, piece)
				compareWays(t, at)
				appendUnescaped(nil, at)
				AppendString(nil, unsafe.String(unsafe.SliceData(at), len(at)))
				NewCursor(at).Skip()
			}
		}
	}
}

// pageAlone returns a page of memory between two protected pages.
func pageAlone(t *testing.T) []byte {
	size := syscall.Getpagesize()
	pages, err := syscall.Mmap(-1, 0, 3*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(pages) })
	for _, fence := range [][]byte{pages[:size], pages[2*size:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return pages[size : 2*size : 2*size]
}

// compareWays checks a text with and without the loop that passes blocks, and a string also by its
// bytes.
func compareWays(t *testing.T, text []byte) {
	t.Helper()
	before := hasAVX2
	defer func() { hasAVX2 = before }()
	err := Check(text)
	hasAVX2 = false
	if plain := Check(text); (err == nil) != (plain == nil) || err != nil && *err.(*Error) != *plain.(*Error) {
		t.Fatalf("Check(%q)\npassing blocks: %v\none by one:     %v", text, err, plain)
	}
	hasAVX2 = before
	if len(text) == 0 || text[0] != '"' {
		return
	}
	end, right := stringEnd(text)
	if found, ok := errors.AsType[*Error](err); !right && (!ok || found.Offset != end) {
		t.Fatalf("Check(%q): %v, but the mistake is at %d", text, err, end)
	}
	if !right || end != len(text) {
		return
	}
	var want string
	if wrong := json.Unmarshal(text, &want); err != nil || wrong != nil {
		t.Fatalf("Check(%q): %v; encoding/json: %v", text, err, wrong)
	}
	got := NewCursor(text).String()
	if again := NewCursor(AppendString(nil, got)).String(); got != want || again != want {
		t.Fatalf("%q is read as %q, and as %q when it was written again; encoding/json reads %q", text, got, again, want)
	}
}

// stringEnd reads a string one byte after the other. It returns where it ends; if something is
// wrong with it, where.
func stringEnd(text []byte) (end int, right bool) {
	for i := 1; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return i, false
			}
			i += size
		case c != '\\':
			i++
		default:
			size := escapeSize(text[i:])
			if i+1 < len(text) && size == 0 {
				return i, false
			}
			i += max(size, 1)
		}
	}
	return len(text), false
}

// escapeSize is how long the escape is that text begins with; 0 means it is none.
func escapeSize(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != 'u' {
		return 2 * min(1, 1+strings.IndexByte(`"\/bfnrt`, text[1]))
	}
	r, ok := hex4(text, 2)
	if !ok || !utf16.IsSurrogate(r) {
		return map[bool]int{true: 6}[ok]
	}
	if low, ok := hex4(text, 8); ok && utf16.DecodeRune(r, low) != utf8.RuneError && string(text[6:8]) == `\u` {
		return 12
	}
	return 0
}
