package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"perigee"
	"perigee/internal/rawjson"
)

// A responsesCarrier is what a reasoning item takes along in its encrypted_content, so that a client that sends the
// item back keeps the model's tool loop whole: the thinking as the provider gave it, with its seals, and the seals of
// the calls that followed. It is not secret from the client, which has been shown all of it.
type responsesCarrier struct {
	thoughts []responsesThought
	calls    []responsesSeal
}

// A responsesThought is a stretch of thinking and the provider's seal on it, which may be empty.
type responsesThought struct{ text, signature string }

// A responsesSeal is the provider's seal on a call.
type responsesSeal struct{ callID, signature string }

// responsesMark begins every carrier: what it is, and the version of its form.
const responsesMark = "pgr\x01"

// responsesSum is how many bytes of a hash end every carrier.
const responsesSum = 12

// encode writes the carrier: mark, thoughts, calls, sum. Lists have their length before them, and so have texts.
func (c *responsesCarrier) encode() string {
	b := []byte(responsesMark)
	b = binary.AppendUvarint(b, uint64(len(c.thoughts)))
	for _, t := range c.thoughts {
		b = responsesAppendText(responsesAppendText(b, t.text), t.signature)
	}
	b = binary.AppendUvarint(b, uint64(len(c.calls)))
	for _, s := range c.calls {
		b = responsesAppendText(responsesAppendText(b, s.callID), s.signature)
	}
	sum := sha256.Sum256(b)
	return base64.StdEncoding.EncodeToString(append(b, sum[:responsesSum]...))
}

func responsesAppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// responsesBase64 takes only one form of the same bytes.
var responsesBase64 = base64.StdEncoding.Strict()

// responsesDecodeCarrier reads a carrier. What is not one of ours, or was changed on the way, is none.
func responsesDecodeCarrier(text []byte) (*responsesCarrier, bool) {
	b, err := responsesBase64.AppendDecode(nil, text)
	if err != nil || len(b) < len(responsesMark)+responsesSum || !bytes.HasPrefix(b, []byte(responsesMark)) {
		return nil, false
	}
	body, sum := b[:len(b)-responsesSum], sha256.Sum256(b[:len(b)-responsesSum])
	if !bytes.Equal(sum[:responsesSum], b[len(b)-responsesSum:]) {
		return nil, false
	}
	r := responsesReader{rest: string(body[len(responsesMark):])} // the one copy that all texts of it share
	c := &responsesCarrier{}
	for range r.count() {
		c.thoughts = append(c.thoughts, responsesThought{r.text(), r.text()})
	}
	for range r.count() {
		c.calls = append(c.calls, responsesSeal{r.text(), r.text()})
	}
	return c, !r.bad && len(r.rest) == 0
}

// A responsesReader reads what encode wrote. After the first thing that cannot be it reads nothing.
type responsesReader struct {
	rest string
	bad  bool
}

// count reads a length. Each element takes at least two bytes, so a longer list cannot be.
func (r *responsesReader) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *responsesReader) number() uint64 {
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *responsesReader) text() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// reasoningItem brings earlier thinking back: from the carrier if the client kept it, else from the summary, which a
// cache behind us may know the seal of. A carrier of somebody else's means nothing to our models.
func (d *responsesDecoder) reasoningItem(i int, item *responsesItem) {
	if item.sealed != nil {
		carrier, ok := responsesDecodeCarrier(d.textOf(i, "encrypted_content", item.sealed))
		if !ok {
			d.notes.dropped("input[].encrypted_content")
			return
		}
		d.restore(carrier)
		return
	}
	thoughts := item.summary
	if responsesEmptyList(thoughts) {
		thoughts = item.body
	}
	var text []byte
	d.nested(i, "summary", thoughts, func(c *rawjson.Cursor) {
		for range c.Array() {
			_, more := readPair(c, "type", "text")
			text = append(text, more...)
		}
	})
	if len(text) > 0 {
		d.turns.model(perigee.Part{Kind: perigee.PartText, Text: string(text), Thought: true})
	}
}

func responsesEmptyList(raw json.RawMessage) bool {
	for range rawjson.NewCursor(raw).Array() {
		return false
	}
	return true
}

func (d *responsesDecoder) restore(carrier *responsesCarrier) {
	for _, t := range carrier.thoughts {
		d.turns.model(perigee.Part{Kind: perigee.PartText, Text: t.text, Signature: t.signature, Thought: true})
	}
	if d.seals == nil && len(carrier.calls) > 0 {
		d.seals = map[string]string{}
	}
	for _, s := range carrier.calls {
		d.seals[s.callID] = s.signature
	}
}
