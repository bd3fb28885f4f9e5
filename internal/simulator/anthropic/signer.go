package anthropic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
)

// Signer signs thinking and the IDs of tool calls, and recognises its own.
//
// The signature of a thinking block is bound to its text. The ID of a tool call is bound to the
// model and to the signatures of its answer, in order: so a request shows by itself whether
// thinking was left out, added or moved.
type Signer struct {
	Key []byte
}

const (
	nonceSize = 16
	redacted  = "redacted thinking"
	idPrefix  = "toolu_01"
	idNonce   = 6 // characters
	idMark    = 8
)

func (s Signer) mac(parts ...string) []byte {
	h := hmac.New(sha256.New, s.Key)
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// Sign returns the signature of a thinking block with a text. Equal arguments give equal
// signatures.
func (s Signer) Sign(name, text string) string {
	nonce := sha256.Sum256([]byte("thinking\x00" + name))
	payload := append(nonce[:nonceSize:nonceSize], s.mac("thinking", string(nonce[:nonceSize]), text)...)
	inner := append([]byte{0x0a, byte(len(payload))}, payload...)
	return base64.StdEncoding.EncodeToString(append([]byte{0x12, byte(len(inner))}, inner...))
}

func (s Signer) verify(text, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || len(raw) != 4+nonceSize+sha256.Size {
		return false
	}
	nonce, sum := raw[4:4+nonceSize], raw[4+nonceSize:]
	return hmac.Equal(sum, s.mac("thinking", string(nonce), text))
}

// Redact returns the data of a redacted_thinking block.
func (s Signer) Redact(name string) string { return s.Sign(name, redacted) }

// CallID returns the ID of a tool call in an answer of a model with these signatures.
func (s Signer) CallID(name, model string, signatures []string) string {
	nonce := digits(s.mac("call", name), idNonce)
	return idPrefix + nonce + s.mark(nonce, model) + s.binding(nonce, signatures)
}

func (s Signer) mark(nonce, model string) string {
	return digits(s.mac("made by", nonce, model), idMark)
}

func (s Signer) binding(nonce string, signatures []string) string {
	return digits(s.mac("bound to", nonce, strings.Join(signatures, " ")), idMark)
}

// bound reports whether the ID of a call is the signer's for a model, and whether the answer had
// exactly these signatures.
func (s Signer) bound(id, model string, signatures []string) (own, intact bool) {
	rest, found := strings.CutPrefix(strings.Replace(id, vertexCallID, idPrefix, 1), idPrefix)
	if !found || len(rest) != idNonce+2*idMark {
		return false, false
	}
	nonce, mark, binding := rest[:idNonce], rest[idNonce:idNonce+idMark], rest[idNonce+idMark:]
	return mark == s.mark(nonce, model), binding == s.binding(nonce, signatures)
}

// digits returns n letters and digits that follow from b.
func digits(b []byte, n int) string { return new(big.Int).SetBytes(b).Text(62)[:n] }
