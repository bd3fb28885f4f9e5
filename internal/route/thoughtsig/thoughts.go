package thoughtsig

import (
	"strconv"
	"strings"

	"perigee"
)

// The providers of the reasoning of Claude and of Gemini.
const (
	claude = "claude"
	gemini = "gemini"
)

// maxThoughts bounds the remembered thinking of one answer. Models produce tens of kilobytes at
// most.
const maxThoughts = 256 << 10

// A thinking is the thinking of an answer so far, for providers that require it back whole. It is
// remembered under the calls that follow it: the value of the first such call has all of it, block for block in the form
//
//	LENGTH:TEXT LENGTH:SIGNATURE
//
// without the space, lengths in bytes. A provider that omits its thinking sends an empty text with a
// signature, and one that does not sign has an empty signature. Redacted thinking is the letter R
// and LENGTH:DATA. Further calls without new thinking in between have a '>' and the first one's key.
type thinking struct {
	block []byte // the text of the open block
	value []byte
	key   string // under which value is remembered; empty if it is not remembered yet
	lost  bool   // a part was not kept, so that the rest is invalid
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

// close ends the open block. One that the provider would not accept back is not kept.
func (t *thinking) close(signature string, accepted bool) {
	if accepted && !t.lost {
		t.value = append(append(strconv.AppendInt(t.value, int64(len(t.block)), 10), ':'), t.block...)
		t.value = append(append(strconv.AppendInt(t.value, int64(len(signature)), 10), ':'), signature...)
		t.key = ""
	}
	t.block = t.block[:0]
}

// redact adds thinking that only its provider can read.
func (t *thinking) redact(data string) {
	if t.lost {
		return
	}
	if len(t.value)+len(data) > maxThoughts {
		t.drop()
		return
	}
	t.value = append(append(strconv.AppendInt(append(t.value, 'R'), int64(len(data)), 10), ':'), data...)
	t.key = ""
}

func (t *thinking) drop() { *t = thinking{lost: true} }

// remember stores the thinking of a provider under the key of a call that follows it.
func (t *thinking) remember(m *Memory, key, kind string) {
	if t.key != "" && t.key != key {
		m.put(key, ">"+t.key, kind)
		return
	}
	value := string(t.value)
	if len(value) > maxThoughts || !storable(value) {
		t.drop()
		return
	}
	t.key = key
	m.put(key, value, kind)
}

// reference returns the key that an entry refers to, if it is a reference.
func reference(s *perigee.Signature) (key string, ok bool) {
	if s == nil {
		return "", false
	}
	return strings.CutPrefix(s.Value, ">")
}

// thoughts decodes a value into parts. It returns nil if the value has another form.
func thoughts(value string) []perigee.Part {
	var parts []perigee.Part
	for value != "" {
		if redacted, ok := strings.CutPrefix(value, "R"); ok {
			data, rest, ok := cutCounted(redacted)
			if !ok {
				return nil
			}
			parts = append(parts, perigee.Part{Kind: perigee.PartRedacted, Thought: true, Signature: data})
			value = rest
			continue
		}
		text, rest, _ := cutCounted(value)
		signature, rest, ok := cutCounted(rest) // if there is no text, rest is empty
		if !ok {
			return nil
		}
		parts = append(parts, perigee.Part{Kind: perigee.PartText, Thought: true, Text: perigee.Plain(text), Signature: signature})
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
