package openai

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Sealer makes opaque reasoning and recognises its own. It is bound to an organization: a key of
// another organization cannot use it.
type Sealer struct{ Key []byte }

const (
	sealHead  = "\x80\x00\x00\x00\x00" // so that the text begins with gAAAA, as OpenAI's does
	sealNonce = 16
)

// seal returns the opaque form of the thing called name; equal arguments give equal results.
func (s Sealer) seal(org, name string) string {
	nonce := sha256.Sum256([]byte("nonce\x00" + name))
	sealed := append([]byte(sealHead), nonce[:sealNonce]...)
	return base64.URLEncoding.EncodeToString(append(sealed, s.mac(org, nonce[:sealNonce])...))
}

// opens reports whether this simulator sealed a text for the organization.
func (s Sealer) opens(org, sealed string) bool {
	raw, err := base64.URLEncoding.DecodeString(sealed)
	if err != nil || len(raw) != len(sealHead)+sealNonce+sha256.Size || string(raw[:len(sealHead)]) != sealHead {
		return false
	}
	nonce := raw[len(sealHead) : len(sealHead)+sealNonce]
	return hmac.Equal(raw[len(sealHead)+sealNonce:], s.mac(org, nonce))
}

func (s Sealer) mac(org string, nonce []byte) []byte {
	h := hmac.New(sha256.New, s.Key)
	h.Write([]byte("openai\x00" + org + "\x00"))
	h.Write(nonce)
	return h.Sum(nil)
}
