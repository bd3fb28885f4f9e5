package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"unicode"
	"unicode/utf8"

	"perigee"
)

// A signature is remembered under the id of its call or a digest of its text, and its kind under a digest of itself.
// Thinking and answers are told apart, since a model may answer with a thought that it had.

const longID = 100 // of a call; longer ones are digested

func callKey(id string) string {
	if len(id) > longID {
		return "c#" + digest(id)
	}
	return "c:" + id
}

func sealKey(value string) string { return "s:" + digest(value) }

// textKey is empty for a text that is nothing but white space.
func textKey(kind perigee.EventKind, seal string, text *textDigest) string {
	if !text.begun {
		return ""
	}
	var buf [64]byte
	key := append(buf[:0], "t:"...)
	if kind == perigee.EventThinking {
		key[0] = 'h'
	}
	key = append(append(key, seal...), ':')
	return string(hex.AppendEncode(key, text.sum()))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// A textDigest digests a text that comes in pieces, without the white space at its ends: clients trim.
type textDigest struct {
	hash    hash.Hash
	begun   bool
	pending []byte // white space that belongs to the text if more follows
	scratch []byte
}

func (d *textDigest) write(text string) {
	if d.hash == nil {
		d.hash = sha256.New()
	}
	if !d.begun {
		for text != "" {
			r, size := utf8.DecodeRuneInString(text)
			if !unicode.IsSpace(r) {
				break
			}
			text = text[size:]
		}
	}
	end := len(text)
	for end > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:end])
		if !unicode.IsSpace(r) {
			break
		}
		end -= size
	}
	if end > 0 {
		d.begun = true
		d.scratch = append(append(d.scratch[:0], d.pending...), text[:end]...)
		d.hash.Write(d.scratch)
		d.pending = d.pending[:0]
	}
	if d.begun {
		d.pending = append(d.pending, text[end:]...)
	}
}

// sum returns the digest of what was written. It is good until the next call.
func (d *textDigest) sum() []byte {
	d.scratch = d.hash.Sum(d.scratch[:0])
	return d.scratch[:16]
}

func (d *textDigest) reset() {
	if d.hash != nil {
		d.hash.Reset()
	}
	d.begun, d.pending = false, d.pending[:0]
}

// plausible says whether a signature that we never saw may be believed to be of a kind. Claude's are base64 once or
// twice around a message that begins with its second field. Gemini's look like Claude's to anybody who cannot open
// them, and are better replaced by nothing than by one that is refused.
func plausible(signature, seal string) bool {
	if seal != "claude" || len(signature) < shortest {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(signature[:8])
	if err != nil {
		return false
	}
	return raw[0] == 'E' || raw[0] == 0x12
}

// shortest is the length of the shortest signature that a provider was seen to issue.
const shortest = 50
