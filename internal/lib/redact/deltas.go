package redact

import (
	"bytes"
	"slices"
)

// HasSpread reports whether there is a secret in the joined texts of a stream of events: in the
// values of all members named text, in lines of JSON or in server-sent events. cut is as for
// Deltas.
func (r *Redactor) HasSpread(stream []byte, cut bool) bool {
	if !r.hasSecrets() {
		return false
	}
	key := []byte(`"text":`)
	joined := make([]byte, 0, len(stream)/2)
	for {
		i := bytes.Index(stream, key)
		if i < 0 {
			return len(joined) > 0 && (r.Finds(joined) || cut && r.index().cutOff(joined) < len(joined))
		}
		stream = bytes.TrimLeft(stream[i+len(key):], " ")
		if end := stringEnd(stream); end > 0 {
			joined = append(joined, stream[1:end]...)
			stream = stream[end:]
		}
	}
}

// JoinMembers returns the values of the members of a stream of events, joined by the name of their
// member at any depth, as a reader of the stream joins them.
func JoinMembers(stream []byte) [][]byte {
	list := members(stream)
	texts := make([][]byte, len(list))
	for i, values := range list {
		texts[i] = joinSpans(stream, values)
	}
	return texts
}

// Deltas returns a stream of events without the secrets that are spread over the values of a member
// in several of them, such as the text deltas of an answer: the first value has the mark, and the
// later ones lose their part. Values are joined by the name of their member at any depth. Values
// that are not JSON strings are unchanged.
//
// cut is true if the stream may break off inside of a secret, as the stream of an open call does.
// Then the beginning of a secret at the end of the values of a member is replaced as well, if it
// has at least four characters.
func (r *Redactor) Deltas(stream []byte, cut bool) []byte {
	if !r.hasSecrets() {
		return stream
	}
	var parts []span        // of secrets, in the stream
	marks := map[int]bool{} // where secrets begin
	for _, values := range members(stream) {
		if len(values) > 1 || cut {
			parts = append(parts, r.spread(stream, values, marks, cut)...)
		}
	}
	if len(parts) == 0 {
		return stream
	}
	slices.SortFunc(parts, func(a, b span) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, p := range parts {
		out = append(out, stream[at:p.start]...)
		if marks[p.start] {
			out = append(out, r.mark...)
		}
		at = p.end
	}
	return append(out, stream[at:]...)
}

// members returns where the values of all members are, by name, in the order in which the names
// occur first.
func members(stream []byte) (list [][]span) {
	index := map[string]int{}
	eachMember(stream, func(name []byte, value span) {
		i, known := index[string(name)]
		if !known {
			i = len(list)
			index[string(name)] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], value)
	})
	return list
}

func joinSpans(stream []byte, values []span) (joined []byte) {
	for _, v := range values {
		joined = append(joined, stream[v.start:v.end]...)
	}
	return joined
}

// spread returns the parts of secrets in the joined values, and adds to marks where the first part
// of each begins.
func (r *Redactor) spread(stream []byte, values []span, marks map[int]bool, cut bool) (parts []span) {
	joined := joinSpans(stream, values)
	offsets := make([]int, len(values)) // of the values in joined
	for i, v := range values[:len(values)-1] {
		offsets[i+1] = offsets[i] + v.end - v.start
	}
	memory := searches.Get().(*search)
	defer searches.Put(memory)
	secrets, _ := r.index().find(memory, joined, [2]byte{}, true)
	if at := r.index().cutOff(joined); cut && at < len(joined) {
		secrets = merge(append(secrets, span{at, len(joined)}))
	}
	for _, s := range secrets {
		first, _ := slices.BinarySearchFunc(offsets, s.start+1, func(offset, at int) int { return offset - at })
		n := len(parts)
		for i := first - 1; i < len(values) && offsets[i] < s.end; i++ {
			size := values[i].end - values[i].start
			from, to := max(s.start-offsets[i], 0), min(s.end-offsets[i], size)
			if from < to {
				parts = append(parts, span{values[i].start + from, values[i].start + to})
			}
		}
		if len(parts) > n {
			marks[parts[n].start] = true
		}
	}
	return parts
}

// eachMember calls visit with the members of JSON objects that have a string as their value, and
// with the position of the value, without quotes. It looks at each line separately. A value that
// the end of the stream cuts off counts.
func eachMember(stream []byte, visit func(name []byte, value span)) {
	for start := 0; start < len(stream); {
		line := stream[start:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		for i := 0; ; {
			quote := bytes.IndexByte(line[i:], '"')
			if quote < 0 {
				break
			}
			i += quote
			size := stringEnd(line[i:])
			if size < 0 {
				break
			}
			name := line[i+1 : i+size]
			i += size + 1
			after := bytes.TrimLeft(line[i:], " \t")
			if len(after) == 0 || after[0] != ':' {
				continue
			}
			after = bytes.TrimLeft(after[1:], " \t")
			i = len(line) - len(after)
			if size = stringEnd(after); size > 0 {
				visit(name, span{start + i + 1, start + i + size})
				i += size + 1
			} else if size < 0 && len(after) > 1 && after[0] == '"' && start+len(line) == len(stream) {
				visit(name, span{start + i + 1, len(stream)})
				break
			}
		}
		start += len(line)
	}
}

// stringEnd returns where the closing quote of a string of JSON is; -1 if the text does not begin
// with a string.
func stringEnd(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return -1
	}
	for i := 1; ; i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		backslashes := 0
		for text[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i
		}
	}
}
