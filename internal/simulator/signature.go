package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"perigee/internal/simulator/rules"
)

// signer issues thought signatures and recognises its own. A signature is an HMAC in the provider's
// outer shape: a protobuf message that begins with field 2 (0x12), base64 once for Gemini (so it
// starts with E), twice for Claude (so it starts with R). It is bound to the family only, as the
// provider's are: replaying one over an edited history works, sending one to the other family does
// not.
type signer struct {
	key []byte
}

const (
	nonceSize = 16
	macSize   = sha256.Size
	infraMark = 0x02 // the provider marks signatures made on its own infrastructure
)

// sign makes the signature of family for the thing called nonceOf; equal arguments, equal
// signature.
func (s signer) sign(family rules.Family, nonceOf string) string {
	nonce := sha256.Sum256([]byte("nonce\x00" + nonceOf))
	payload := append(nonce[:nonceSize:nonceSize], s.mac(family, nonce[:nonceSize])...)
	if family != rules.Claude {
		return base64.StdEncoding.EncodeToString(field(0x12, field(0x0a, payload)))
	}
	channel := []byte{0x08, 0x0b, 0x10, infraMark}
	inner := base64.StdEncoding.EncodeToString(field(0x12, append(field(0x0a, channel), field(0x2a, payload)...)))
	return base64.StdEncoding.EncodeToString([]byte(inner))
}

// verify returns the family that a signature was issued for, and whether it is a valid signature
// of this simulator.
func (s signer) verify(signature string) (rules.Family, bool) {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return "", false
	}
	double := false
	if inner, err := base64.StdEncoding.DecodeString(string(raw)); err == nil {
		raw, double = inner, true
	}
	if len(raw) < 2+nonceSize+macSize || raw[0] != 0x12 || int(raw[1]) != len(raw)-2 {
		return "", false
	}
	payload := raw[len(raw)-nonceSize-macSize:]
	for _, family := range rules.Families() {
		if double == (family == rules.Claude) && hmac.Equal(payload[nonceSize:], s.mac(family, payload[:nonceSize])) {
			return family, true
		}
	}
	return "", false
}

func (s signer) mac(family rules.Family, nonce []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte("signature\x00" + string(family) + "\x00"))
	h.Write(nonce)
	return h.Sum(nil)
}

// field returns one length-delimited protobuf field. Payloads are shorter than 128 bytes.
func field(tag byte, payload []byte) []byte {
	return append([]byte{tag, byte(len(payload))}, payload...)
}
