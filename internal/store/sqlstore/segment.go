package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// segmentBytes is how long a segment is at least, unless nothing follows: a row costs about a
// hundred bytes of its own.
const segmentBytes = 512

// memberBytes is from which length on members of the response, such as its instructions and tools,
// are rows of their own.
const memberBytes = 512

// digestBytes is the length of the id of a segment.
const digestBytes = 20

// A segmentID identifies a segment, or the names of calls in a list.
type segmentID [digestBytes]byte

// A hole is where the text of a segment has the name of a call.
type hole struct{ from, to int }

// A segment is a part of the list of items of a stored response, input before output, which
// conversations share: the id of a segment is the digest of the key, the segment before it and its
// text. The list is the path from its last segment to the first, so responses with the same
// beginning share its segments.
//
// The dialect names an item that came without an id after its call: msg_CALL_i0. If a client sends
// the whole conversation with each call, all of its items are named anew each time. Therefore a
// segment has a NUL in place of the call, and the response records the calls that its segments are
// named after if they differ from the first ones.
//
// The items are not decoded: wherever a list is cut, joinSegments returns the bytes that were
// saved.
type segment struct {
	text  []byte
	name  string // of a call; empty if there are no holes
	holes []hole
	id    segmentID
	named segmentID // of all names of calls so far
}

// body returns the part of the text that is stored.
func (s *segment) body() []byte {
	if len(s.holes) == 0 {
		return s.text
	}
	body := make([]byte, 0, s.size())
	from := 0
	for _, h := range s.holes {
		body = append(append(body, s.text[from:h.from]...), 0)
		from = h.to
	}
	return append(body, s.text[from:]...)
}

// size returns the length of the body.
func (s *segment) size() int { return len(s.text) - len(s.holes)*(len(s.name)-1) }

// chain gives each of the segments of a key its id.
func chain(key string, list []segment) {
	hash := sha256.New()
	var parent segmentID
	var sum [sha256.Size]byte
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	for i := range list {
		s := &list[i]
		hash.Reset()
		hash.Write(length[:])
		hash.Write([]byte(key))
		hash.Write(parent[:])
		hash.Write(s.body())
		copy(s.id[:], hash.Sum(sum[:0]))
		parent = s.id
	}
	nameSegments(list, segmentID{})
}

// nameSegments gives each segment the digest of its name and all before it, of which before is the
// digest.
func nameSegments(list []segment, before segmentID) {
	for i := range list {
		if name := list[i].name; name != "" {
			sum := sha256.Sum256(append(before[:], name...))
			copy(before[:], sum[:])
		}
		list[i].named = before
	}
}

// A splitter cuts lists of items into segments.
type splitter struct {
	list   []segment
	open   segment // not yet long enough
	name   string  // of the last call that an item was named after
	inside bool    // the open segment is a part of the array that is being cut, else a copy
	from   int     // where it begins there
}

// itemStart is how items begin, behind a comma, as the dialect writes them. In JSON these bytes are
// never a part of a string.
var itemStart = []byte(`,{"id":"`)

// add cuts an array, between items as far as they begin as they should. It returns false when it is
// not an array, or has bytes that JSON cannot have.
func (s *splitter) add(array []byte) bool {
	end := len(array) - 1
	if end < 1 || array[0] != '[' || array[end] != ']' || bytes.IndexByte(array, 0) >= 0 {
		return false
	}
	s.inside = false // the open part belongs to another array
	for from := 1; from < end; {
		to := end
		if i := bytes.Index(array[from+1:end], itemStart); i >= 0 {
			to = from + 1 + i
		}
		s.item(array, from, to)
		from = to + 1
	}
	return true
}

// item adds the item array[from:to].
func (s *splitter) item(array []byte, from, to int) {
	name, at := callOf(array[from:to])
	if len(name) > 0 && string(name) != s.name {
		s.name = string(name)
	}
	if len(name) > 0 && s.open.name != "" && s.open.name != s.name {
		s.close()
	}
	length := len(s.open.text)
	switch {
	case length == 0:
		s.open, s.inside, s.from = segment{text: array[from:to:to]}, true, from
	case s.inside:
		s.open.text = array[s.from:to:to]
	default: // the output continues where the input ended
		s.open.text = append(append(slices.Clip(s.open.text), ','), array[from:to]...)
	}
	if len(name) > 0 {
		begin := len(s.open.text) - (to - from) + at
		s.open.name = s.name
		s.open.holes = append(s.open.holes, hole{begin, begin + len(name)})
	}
	if len(s.open.text) >= segmentBytes {
		s.close()
	}
}

func (s *splitter) close() {
	if len(s.open.text) > 0 {
		s.list = append(s.list, s.open)
		s.open = segment{}
	}
}

// maxName is the maximum length of the name of a call.
const maxName = 64

// callOf finds the call that an item is named after, if its id is its first member:
// {"id":"msg_CALL_i0".
func callOf(item []byte) (call []byte, at int) {
	const opening = `{"id":"`
	if len(item) < len(opening) || string(item[:len(opening)]) != opening {
		return nil, 0
	}
	id := item[len(opening):]
	if id = id[:min(len(id), 2*maxName)]; bytes.IndexByte(id, '"') < 0 {
		return nil, 0
	}
	id = id[:bytes.IndexByte(id, '"')]
	begin, end := bytes.IndexByte(id, '_')+1, bytes.LastIndex(id, []byte("_i"))
	if begin == 0 || end-begin < 1 || end-begin > maxName || len(id) < end+3 {
		return nil, 0
	}
	for _, c := range id[end+2:] {
		if c < '0' || c > '9' {
			return nil, 0
		}
	}
	for _, c := range id[begin:end] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_') {
			return nil, 0
		}
	}
	return id[begin:end], len(opening) + begin
}

// A segmentTree is how a response is stored.
type segmentTree struct {
	items      []segment // of input and output
	inputBytes int64     // -1 if they are in plain instead
	plain      []byte
	members    []segment // large members of the response
	response   []byte    // the rest of it
}

// cutSegments cuts a response of a key.
func cutSegments(key string, r *perigee.StoredResponse) segmentTree {
	t := segmentTree{plain: []byte{}, response: r.Response}
	var s splitter
	if s.add(r.Input) && s.add(r.Output) {
		s.close()
		t.items, t.inputBytes = s.list, int64(len(r.Input)-len("[]"))
	} else {
		t.inputBytes = -1
		t.plain = binary.AppendUvarint(nil, uint64(len(r.Input)))
		t.plain = append(append(t.plain, r.Input...), r.Output...)
	}
	if bytes.IndexByte(r.Response, 0) < 0 {
		t.cutMembers(r.Response)
	}
	chain(key, t.items)
	chain(key, t.members)
	return t
}

// cutMembers takes the large members out of the response. Its output is in no other response, so
// that stays.
func (t *segmentTree) cutMembers(response []byte) {
	c := rawjson.NewCursor(response)
	if c.Kind() != rawjson.Object {
		return
	}
	var rest []byte
	done := 0
	for name := range c.Object() {
		from, to := c.Span()
		if to-from < memberBytes || from < done || to > len(response) || string(name) == "output" {
			continue
		}
		rest = append(append(rest, response[done:from]...), 0)
		t.members = append(t.members, segment{text: response[from:to:to]})
		done = to
	}
	if done > 0 {
		t.response = append(rest, response[done:]...)
	}
}

// splitPlain returns input and output that are not in the tree.
func splitPlain(plain []byte) (input, output []byte, ok bool) {
	length, n := binary.Uvarint(plain)
	if n <= 0 || length > uint64(len(plain)-n) {
		return nil, nil, false
	}
	return plain[n : n+int(length)], plain[n+int(length):], true
}

// joinSegments returns input and output, which share one piece of memory. inputBytes is negative if
// they are in plain. It reports whether all parts are there.
func joinSegments(list []segmentPart, plain []byte, inputBytes int64) (input, output []byte, ok bool) {
	if inputBytes < 0 {
		return splitPlain(plain)
	}
	size := len("[") + len("][")
	for i := range list {
		size += list[i].size() + len(",")
	}
	all := append(make([]byte, 0, size), '[')
	for i := range list {
		if i > 0 {
			all = append(all, ',')
		}
		all = list[i].appendTo(all)
	}
	total := int64(len(all) - len("["))
	switch {
	case inputBytes == 0:
		return []byte("[]"), append(all, ']'), true
	case inputBytes == total:
		return append(all, ']'), []byte("[]"), true
	case inputBytes > total || all[1+inputBytes] != ',':
		return nil, nil, false
	}
	between := inputBytes + 1 // the comma becomes ][
	all = slices.Insert(all, int(between), ']')
	all[between+1] = '['
	return all[: between+1 : between+1], append(all[between+1:], ']'), true
}

// A segmentPart is the body of a segment, and the name of the call that fills its holes.
type segmentPart struct {
	body []byte
	name string // empty if there are no holes
}

func (n *segmentPart) size() int {
	if n.name == "" {
		return len(n.body)
	}
	return len(n.body) + bytes.Count(n.body, []byte{0})*(len(n.name)-1)
}

func (n *segmentPart) appendTo(dst []byte) []byte {
	rest := n.body
	for n.name != "" {
		before, after, found := bytes.Cut(rest, []byte{0})
		if !found {
			break
		}
		dst, rest = append(append(dst, before...), n.name...), after
	}
	return append(dst, rest...)
}

// segmentNames returns the calls that segments are named after, each with the index of the first
// segment, as in 0:CALL,7:CALL.
func segmentNames(list []segment) string {
	var names []string
	last := ""
	for i := range list {
		if call := list[i].name; call != "" && call != last {
			names, last = append(names, strconv.Itoa(i)+":"+call), call
		}
	}
	return strings.Join(names, ",")
}

// renameSegments gives parts that have a name the one that names has for them, as segmentNames
// writes it. If names is empty, they keep their own.
func renameSegments(parts []segmentPart, names string) error {
	if names == "" {
		return nil
	}
	calls := map[int]string{} // by the index of the first segment
	for text := range strings.SplitSeq(names, ",") {
		first, call, _ := strings.Cut(text, ":")
		i, err := strconv.Atoi(first)
		if err != nil {
			return err
		}
		calls[i] = call
	}
	call := ""
	for i := range parts {
		if next, ok := calls[i]; ok {
			call = next
		}
		if parts[i].name != "" {
			parts[i].name = call
		}
	}
	return nil
}

// fillMembers puts the members back that were cut out of a response.
func fillMembers(response []byte, members []segmentPart) ([]byte, error) {
	if len(members) == 0 {
		return response, nil
	}
	parts := bytes.Split(response, []byte{0})
	if len(parts) != len(members)+1 {
		return nil, fmt.Errorf("%d members for %d places", len(members), len(parts)-1)
	}
	whole := parts[:1:1]
	for i, member := range members {
		whole = append(whole, member.body, parts[i+1])
	}
	return bytes.Join(whole, nil), nil
}
