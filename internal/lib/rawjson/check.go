// Package rawjson reads and edits JSON without turning it into Go values first.
//
// Agent requests are between 100 KB and 50 MB of JSON that is forwarded mostly unchanged. Check
// validates such a text once, more strictly than encoding/json; a Cursor then reads the parts that
// are needed, from left to right; Find and Splice change a few bytes and keep the other bytes.
//
// The package does not map JSON to structs, does not format it, and does not read streams: it needs
// the whole text in memory. The dialects call it with request bodies, the upstreams with answer
// chunks.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 1000

// Check reports, as an *Error, the first thing wrong with data as one JSON text, or nil.
//
// It requires more than RFC 8259 does: the text is valid UTF-8 without a byte order mark, every \u
// surrogate has its partner, no object has two members of the same name (compared after
// unescaping), and containers nest no deeper than MaxDepth. Time is linear in len(data) whatever
// the data; ordinary texts cost no allocation.
func Check(data []byte) error {
	_, err := check(data, false, nil)
	return err
}

// CheckCount is Check, counts the values, and refuses numbers that no float64 can hold. JSON allows
// them, but the next reader would make them infinite, or fail. It is for the requests of clients;
// answers of providers are passed on unchanged.
func CheckCount(data []byte) (Count, error) { return check(data, true, nil) }

// A Member is one member of an object: data[At:End], with its value in data[Start:End].
type Member struct {
	Name  []byte // the original text, including escapes
	Kind  Kind   // of the value
	At    int    // of the quote before the name
	Start int
	End   int
}

// CheckMembers is CheckCount, and calls visit with each member of the object that data is. It may
// find an error after it has called visit.
func CheckMembers(data []byte, visit func(m Member)) (Count, error) {
	return check(data, true, visit)
}

// CheckTop is Check, and calls visit with each member of the object that data is, as CheckMembers
// does.
func CheckTop(data []byte, visit func(m Member)) error {
	_, err := check(data, false, visit)
	return err
}

func check(data []byte, finite bool, members func(m Member)) (Count, error) {
	k := checkers.Get().(*checker)
	defer k.release()
	return k.check(data, finite, members)
}

func (k *checker) check(data []byte, finite bool, members func(m Member)) (Count, error) {
	k.data, k.finite, k.count = data, finite, Count{}
	k.maxKeys = max(manyKeys, len(data)/keyBytes)
	k.members = members
	var err error
	if !k.document() {
		k.preferEarlierDuplicate()
		err = newError(data, k.badOffset, k.badProblem)
	}
	return k.count, err
}

// checkers keeps the memory of finished checks for the next ones.
var checkers = sync.Pool{New: func() any { return &checker{seed: maphash.MakeSeed()} }}

// usual is the number of elements of a buffer that is kept for the next text.
const usual = 4096

// release returns the checker to the pool, without buffers that only an unusual text needed.
func (k *checker) release() {
	k.data, k.open, k.keys, k.begun, k.ends = nil, k.open[:0], k.keys[:0], k.begun[:0], k.ends[:0]
	if k.members != nil {
		k.members, k.member = nil, Member{}
	}
	if cap(k.keys) > usual {
		k.keys = nil
	}
	if cap(k.table) > usual {
		k.table = nil
	}
	if cap(k.scratch) > usual {
		k.scratch = nil
	}
	if cap(k.ends) > usual {
		k.ends = nil
	}
	checkers.Put(k)
}

// A checker walks over data once. Its methods return the offset after the checked value, or -1
// after calling fail.
type checker struct {
	data    []byte
	finite  bool           // numbers must be
	members func(m Member) // nil if members are not reported
	member  Member         // of the outermost object, while its value is read

	count Count

	// open has one entry for each container around the current place: where its keys start in keys,
	// or inArray.
	open []int
	// keys are the names read so far in the open objects, outermost object first.
	keys    []key
	maxKeys int

	// The long values, if Open wants them; see document.go.
	ends    []span
	longest int   // of ends; 0 if they are not remembered
	begun   []int // by open container: its index in ends, or -1

	// The names of all members, if Open wants them.
	naming bool
	names  nameFilter

	// For finding duplicates in large objects, see keys.go.
	table   []uint32
	seed    maphash.Seed
	scratch []byte

	badOffset  int
	badProblem string
}

const inArray = -1

func (k *checker) fail(offset int, problem string) int {
	k.badOffset, k.badProblem = offset, problem
	return -1
}

// document checks the whole text.
func (k *checker) document() bool {
	i := skipSpace(k.data, 0)
	if len(k.data) >= 3 && string(k.data[:3]) == "\ufeff" {
		k.fail(0, "byte order mark before the JSON value")
		return false
	}
	for {
		// A value starts at i.
		if i < len(k.data) && (k.data[i] == '{' || k.data[i] == '[') {
			var empty bool
			if i, empty = k.enter(i); !empty && i >= 0 {
				continue
			}
		} else {
			i = k.scalar(i)
		}
		// A value ended at i, or something was wrong with it.
		if i < 0 {
			return false
		}
		if i = k.after(i); i < 0 {
			return false
		}
		if len(k.open) == 0 {
			return true
		}
	}
}

// enter steps into the container that opens at i and stops at its first value, or at the closing
// bracket when it is empty.
func (k *checker) enter(i int) (next int, empty bool) {
	if len(k.open) == MaxDepth {
		return k.fail(i, problemDepth), false
	}
	object := k.data[i] == '{'
	if k.longest > 0 {
		k.begin(i)
	}
	i = skipSpace(k.data, i+1)
	if !object {
		k.open = append(k.open, inArray)
		empty = i < len(k.data) && k.data[i] == ']'
		if !empty && len(k.open) <= ElementDepth {
			k.count.Elements++
		}
		return i, empty
	}
	k.open = append(k.open, len(k.keys))
	if i < len(k.data) && k.data[i] == '}' {
		return i, true
	}
	return k.key(i, "where a key or '}' should be"), false
}

// after continues from the end of a value: past the brackets that close here, to the next value or
// the end of the text.
func (k *checker) after(i int) int {
	for {
		i = skipSpace(k.data, i)
		if len(k.open) == 0 {
			if i < len(k.data) {
				return k.unexpected(i, "after the end of the JSON value")
			}
			return i
		}
		c := byte(0)
		if i < len(k.data) {
			c = k.data[i]
		}
		first := k.open[len(k.open)-1]
		switch {
		case c == ',' && first == inArray:
			if len(k.open) <= ElementDepth {
				k.count.Elements++
			}
			return skipSpace(k.data, i+1)
		case c == ',':
			if k.members != nil {
				k.leaveMember(i)
			}
			return k.key(skipSpace(k.data, i+1), "where a key should be")
		case c == ']' && first == inArray:
		case c == '}' && first != inArray:
			if k.members != nil {
				k.leaveMember(i)
			}
			if again := k.duplicate(first, len(k.keys)); again >= 0 {
				return k.failDuplicate(again)
			}
			k.keys = k.keys[:first]
		case first == inArray:
			return k.unexpected(i, "where ',' or ']' should be")
		default:
			return k.unexpected(i, "where ',' or '}' should be")
		}
		k.open = k.open[:len(k.open)-1]
		i++
		if k.longest > 0 {
			k.finish(i)
		}
	}
}

// key checks a member's name and the colon, and returns where the member's value starts.
func (k *checker) key(i int, where string) int {
	if i >= len(k.data) || k.data[i] != '"' {
		return k.unexpected(i, where)
	}
	start := i + 1
	i, escaped := k.text(start)
	if i < 0 {
		return i
	}
	end := i - 1
	k.count.Members++
	if len(k.keys) == k.maxKeys {
		return k.fail(start-1, problemKeys)
	}
	name := newKey(k.data, start, end, escaped)
	k.keys = append(k.keys, name)
	if k.naming {
		k.names.add(name)
	}
	i = skipSpace(k.data, i)
	if i >= len(k.data) || k.data[i] != ':' {
		return k.unexpected(i, "where ':' should be")
	}
	i = skipSpace(k.data, i+1)
	if k.members != nil && len(k.open) == 1 && i < len(k.data) {
		k.member = Member{Name: k.data[start:end], Kind: kindOf[k.data[i]], At: start - 1, Start: i}
	}
	return i
}

// leaveMember is called at the comma or the brace behind each member of each object, if members are
// reported.
func (k *checker) leaveMember(i int) {
	if len(k.open) == 1 && k.member.Name != nil {
		k.member.End = k.member.Start + len(bytes.TrimRight(k.data[k.member.Start:i], " \t\r\n"))
		k.members(k.member)
	}
}

// scalar checks the string, number or literal that starts at i.
func (k *checker) scalar(i int) int {
	if i >= len(k.data) {
		return k.unexpected(i, "where a value should be")
	}
	switch c := k.data[i]; {
	case c == '"':
		end, _ := k.text(i + 1)
		if end-i >= longValue && len(k.ends) < k.longest {
			k.ends = append(k.ends, span{uint32(i), uint32(end)})
		}
		return end
	case c == '-' || '0' <= c && c <= '9':
		return k.number(i)
	case c == 't' && hasPrefixAt(k.data, i, "true"), c == 'n' && hasPrefixAt(k.data, i, "null"):
		return i + 4
	case c == 'f' && hasPrefixAt(k.data, i, "false"):
		return i + 5
	}
	return k.unexpected(i, "where a value should be")
}

func (k *checker) number(i int) int {
	end, ok := scanNumber(k.data, i)
	switch {
	case ok && k.finite && end-i >= len("1e309") && beyondFloat64(k.data[i:end]):
		return k.fail(i, "the number "+quoteNumber(k.data[i:end])+" is beyond what 64 bits can hold")
	case ok:
		return end
	case end > i && k.data[end-1] == '0':
		return k.unexpected(end, "after a leading zero")
	}
	return k.unexpected(end, "where a digit should be")
}

// text checks a string from behind its opening quote to behind its closing one.
func (k *checker) text(i int) (end int, escaped bool) {
	data := k.data
	if end := shortText(data, i); end > 0 {
		return end, false
	}
	i, escaped = passBlocks(data, i)
	for {
		for i+8 <= len(data) {
			if m := stops(binary.LittleEndian.Uint64(data[i:])); m != 0 {
				i += lowestLane(m)
				break
			}
			i += 8
		}
		if i >= len(data) {
			return k.fail(len(data), "the text ends inside a string"), false
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i+1 < len(data) && simpleEscape[data[i+1]] {
				i += 2
			} else if i = k.escape(i); i < 0 {
				return i, false
			}
		case c < ' ':
			return k.fail(i, "control character "+hexByte(c)+" in a string, where it needs an escape"), false
		case c < utf8.RuneSelf:
			i++
		default:
			end := skipUTF8(data, i)
			if end < 0 {
				return k.fail(^end, "invalid UTF-8: byte "+hexByte(data[^end])), false
			}
			i = end
		}
	}
}

// escape checks an escape that is not one of the short ones; i is at the backslash.
func (k *checker) escape(i int) int {
	if i+1 >= len(k.data) {
		return k.fail(len(k.data), "the text ends inside a string")
	}
	if k.data[i+1] != 'u' {
		_, size := utf8.DecodeRune(k.data[i+1:])
		return k.fail(i, "unknown escape "+quoteShort(k.data[i:i+1+size]))
	}
	r, ok := hex4(k.data, i+2)
	switch {
	case !ok:
		return k.fail(i, `\u without four hexadecimal digits`)
	case !utf16.IsSurrogate(r):
		return i + 6
	}
	if low, ok := hex4(k.data, i+8); ok && hasPrefixAt(k.data, i+6, `\u`) && utf16.DecodeRune(r, low) != utf8.RuneError {
		return i + 12
	}
	return k.fail(i, "unpaired surrogate "+string(k.data[i:i+6]))
}
