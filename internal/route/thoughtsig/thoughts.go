package thoughtsig

import (
	"strconv"
	"strings"

	"perigee"
)

// claude is the kind of signatures of the models that require their thinking back whole: they sign
// the thinking, not the call that followed it, and a client that lost the one has lost the other.
const claude = "claude"

// maxThoughts bounds what is remembered of one answer's thinking. Models think in tens of kilobytes
// at most.
const maxThoughts = 256 << 10

// A thinking is the signed thinking of an answer so far, as it is remembered under the calls that
// follow it: the value of the first such call has all of it, block for block as
//
//	LENGTH:TEXT LENGTH:SIGNATURE
//
// without the space, lengths in bytes. Further calls without new thinking in between have a '>' and
// the first one's key.
type thinking struct {
	block []byte // the text of the open block
	value []byte
	key   string // under which value is remembered; empty: nowhere yet
	lost  bool   // some of it could not be kept, and without that the rest is not what the model thought
}

// add adds to the text of the open block.
func (t *thinking) add(text string) {
	if t.lost {
		return
	}
	if len(t.block)+len(t.value)+len(text) > maxThoughts {
		t.drop()
		return
	}
	t.block = append(t.block, text...)
}

// close ends the open block. Without a signature the model would not accept it, so it is left out.
func (t *thinking) close(signature string) {
	if signature != "" && len(t.block) > 0 {
		t.value = append(append(strconv.AppendInt(t.value, int64(len(t.block)), 10), ':'), t.block...)
		t.value = append(append(strconv.AppendInt(t.value, int64(len(signature)), 10), ':'), signature...)
		t.key = ""
	}
	t.block = t.block[:0]
}

func (t *thinking) drop() { *t = thinking{lost: true} }

// remember keeps the thinking under the key of a call that followed it.
func (t *thinking) remember(m *Memory, key string) {
	if t.key != "" && t.key != key {
		m.put(key, ">"+t.key, claude)
		return
	}
	value := string(t.value)
	if len(value) > maxThoughts || !storable(value) {
		t.drop()
		return
	}
	t.key = key
	m.put(key, value, claude)
}

// reference returns the key under which the thinking really is, if what is known only points there.
func reference(s *perigee.Signature) (key string, ok bool) {
	if s == nil {
		return "", false
	}
	return strings.CutPrefix(s.Value, ">")
}

// thoughts returns the parts that a value stands for, or nil when it has another form.
func thoughts(value string) []perigee.Part {
	var parts []perigee.Part
	for value != "" {
		text, rest, _ := cutCounted(value)
		signature, rest, ok := cutCounted(rest) // there is no rest where there was no text
		if !ok {
			return nil
		}
		parts = append(parts, perigee.Part{Kind: perigee.PartText, Thought: true, Text: text, Signature: signature})
		value = rest
	}
	return parts
}

// cutCounted takes a text with its length from the beginning of a value.
func cutCounted(value string) (text, rest string, ok bool) {
	digits, rest, ok := strings.Cut(value, ":")
	if !ok {
		return "", "", false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n > uint64(len(rest)) {
		return "", "", false
	}
	return rest[:n], rest[n:], true
}
