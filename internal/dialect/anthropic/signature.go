package anthropic

import (
	"encoding/base64"
	"strings"

	"perigee"
)

// The provider signs its thinking, and wants the signatures back where they were: on the thinking
// itself, or on the call that came of it. This dialect has one place for a signature, in a thinking
// block. One that belongs elsewhere travels there inside a carrier, which says where it belongs:
//
//	perigee.1.call.SIGNATURE           of the next tool_use block in the message
//	perigee.1.thinking.TEXT.SIGNATURE  of this block, whose text (in base64) the client asked not to see
//
// Everything else in that place is a signature of the thinking block itself.
const (
	carrier         = "perigee.1."
	carrierCall     = carrier + "call."
	carrierThinking = carrier + "thinking."
)

// carryCall packs the signature of a call.
func carryCall(signature string) string { return carrierCall + signature }

// carryThinking packs a signature together with the thinking that it is over.
func carryThinking(text []byte, signature string) string {
	return carrierThinking + base64.RawURLEncoding.EncodeToString(text) + "." + signature
}

// openSignature appends what a thinking block stands for, and returns the signature that waits for
// the next call: the one from a carrier, else the one that waited before.
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
	return append(parts, perigee.Part{Kind: perigee.PartText, Text: text, Thought: true, Signature: signature}), waiting
}
