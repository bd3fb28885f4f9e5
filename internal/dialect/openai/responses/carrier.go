package responses

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// A carrier is the content of encrypted_content of a reasoning item, which clients send back during
// a tool loop: the thinking as the provider sent it, with its signatures, and the signatures of the
// calls that followed. It is not secret: the client has received all of it.
type carrier struct {
	thoughts []thought
	calls    []callSignature
}

// A thought is a stretch of thinking and the provider's signature on it, which may be empty.
type thought struct {
	pieces    rope // its text
	signature string
}

// A callSignature is the provider's signature of a call.
type callSignature struct{ callID, signature string }

// carrierMark is the prefix of every carrier: its type and the version of its format.
const carrierMark = "pgr\x01"

// carrierStart is how every carrier begins, in base64.
const carrierStart = "cGdyA"

// carrierSum is how many bytes of a hash end every carrier.
const carrierSum = 12

// write writes the carrier in base64: mark, thoughts, calls, sum. Lists have their length before
// them, and so have texts. The texts of thoughts are their pieces. It fails only where w does.
func (c *carrier) write(w io.Writer) {
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	sum := sha256.New()
	both := io.MultiWriter(encoder, sum)
	length := func(n int) { _, _ = both.Write(binary.AppendUvarint(nil, uint64(n))) }
	text := func(s string) {
		length(len(s))
		_, _ = io.WriteString(both, s)
	}
	_, _ = io.WriteString(both, carrierMark)
	length(len(c.thoughts))
	for _, t := range c.thoughts {
		length(t.pieces.size)
		for _, piece := range t.pieces.pieces {
			_, _ = both.Write(piece)
		}
		text(t.signature)
	}
	length(len(c.calls))
	for _, s := range c.calls {
		text(s.callID)
		text(s.signature)
	}
	_, _ = encoder.Write(sum.Sum(nil)[:carrierSum])
	_ = encoder.Close()
}

// strictBase64 takes only one form of the same bytes.
var strictBase64 = base64.StdEncoding.Strict()

// openCarrier returns a reader of a carrier, and how many thoughts and signatures it has, without
// memory for them: a client could have forged millions. ok is false for other text, and for a carrier
// that was changed.
func openCarrier(text []byte) (r carrierReader, entries int, ok bool) {
	b, err := strictBase64.AppendDecode(nil, text)
	if err != nil || len(b) < len(carrierMark)+carrierSum || !bytes.HasPrefix(b, []byte(carrierMark)) {
		return r, 0, false
	}
	body, sum := b[:len(b)-carrierSum], sha256.Sum256(b[:len(b)-carrierSum])
	if !bytes.Equal(sum[:carrierSum], b[len(b)-carrierSum:]) {
		return r, 0, false
	}
	r.rest = string(body[len(carrierMark):]) // all texts share this copy
	check := r
	for range 2 {
		check.pairs(func(_, _ string) { entries++ })
	}
	return r, entries, !check.bad && len(check.rest) == 0
}

// A carrierReader reads the decoded output of write. After an invalid value it reads nothing.
type carrierReader struct {
	rest string
	bad  bool
}

// pairs reads a list of pairs of texts.
func (r *carrierReader) pairs(visit func(a, b string)) {
	for range r.count() {
		a, b := r.text(), r.text()
		if r.bad {
			return
		}
		visit(a, b)
	}
}

// count reads a length. It is invalid if there are not as many bytes left.
func (r *carrierReader) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *carrierReader) number() uint64 {
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *carrierReader) text() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// reasoningItem restores earlier thinking: from the carrier if the client kept it, or else from the
// summary, for which package thoughtsig may have the signature. The encrypted content of a provider
// is the signature of the summary, which only that provider gets.
func (d *decoder) reasoningItem(i int, item *inputItem) {
	encrypted := ""
	if item.encrypted != nil {
		text := d.textOf(i, "encrypted_content", item.encrypted)
		if r, entries, ok := openCarrier(text); ok {
			d.restore(r, entries)
			return
		}
		encrypted = string(text)
	}
	thoughts := item.summary
	if isEmptyList(thoughts) {
		thoughts = item.body
	}
	var text rawjson.Text
	d.nested(i, "summary", thoughts, func(c *rawjson.Cursor) {
		for range c.Array() {
			_, more := openai.ReadPair(c, "type", "text")
			text.Add(more)
		}
	})
	if text.Len() > 0 || encrypted != "" {
		d.turns.ModelPart(perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text.String()), Thought: true, Signature: encrypted})
	}
}

func isEmptyList(raw json.RawMessage) bool {
	for range rawjson.NewCursor(raw).Array() {
		return false
	}
	return true
}

// restore adds what a carrier has to the conversation. Its entries take memory as the elements of the
// body do, and count as such.
func (d *decoder) restore(r carrierReader, entries int) {
	d.carried += entries
	count := d.doc.Count
	count.Elements += d.carried
	if err := count.Err(d.size); err != nil {
		d.forbid(openai.TooManyPieces(err))
		return
	}
	r.pairs(func(text, signature string) {
		d.turns.ModelPart(perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text), Signature: signature, Thought: true})
	})
	r.pairs(func(callID, signature string) {
		if d.signatures == nil {
			d.signatures = map[string]string{}
		}
		d.signatures[callID] = signature
	})
}
