package anthropic

import (
	"encoding/base64"
	"strings"

	"perigee"
)

// The provider signs its thinking, and requires the signatures back in the same place: on the
// thinking itself, or on the call that follows it. This dialect has only one field for a signature,
// in a thinking block. Any other signature is sent in that field inside a carrier, which names its
// place:
//
//	perigee.1.call.SIGNATURE           of the next tool_use block in the message
//	perigee.1.thinking.TEXT.SIGNATURE  of this block; TEXT is hidden thinking in base64
//
// Everything else in that place is a signature of the thinking block itself.
const (
	carrier         = "perigee.1."
	carrierCall     = carrier + "call."
	carrierThinking = carrier + "thinking."
)

// carryCall packs the signature of a call.
func carryCall(signature string) string { return carrierCall + signature }

// carryThinking packs a signature together with its hidden thinking.
func carryThinking(text []byte, signature string) string {
	return carrierThinking + base64.RawURLEncoding.EncodeToString(text) + "." + signature
}

// openSignature appends the parts of a thinking block, and returns the pending signature for the
// next call: the one from a carrier, or else waiting.
func openSignature(parts []perigee.Part, b *block, waiting string) ([]perigee.Part, string) {
	text, signature := b.thinking, b.signature
	if call, ok := strings.CutPrefix(signature, carrierCall); ok {
		waiting, signature = call, ""
	} else if packed, ok := strings.CutPrefix(signature, carrierThinking); ok {
		hidden, rest, _ := strings.Cut(packed, ".")
		if plain, err := base64.RawURLEncoding.DecodeString(hidden); err == nil {
			signature = rest
			if text == "" {
				text = string(plain)
			}
		}
	}
	if text == "" && signature == "" {
		return parts, waiting
	}
	return append(parts, perigee.Part{Kind: perigee.PartText, Text: perigee.Plain(text), Thought: true, Signature: signature}), waiting
}
