package anthropic

import (
	"encoding/base64"
	"strings"

	"perigee"
)

// The provider seals its thinking, and wants the seals back where they were: on the thinking itself, or on the
// call that came of it. This dialect has one place for a seal, the signature of a thinking block. A seal that
// belongs elsewhere travels there inside a carrier, which says where it belongs:
//
//	perigee.1.call.SEAL           of the next tool_use block in the message
//	perigee.1.thinking.TEXT.SEAL  of this block, whose text (in base64) the client asked not to see
//
// Everything else in that place is a seal of the thinking block itself, and none of our business.
const (
	carrier         = "perigee.1."
	carrierCall     = carrier + "call."
	carrierThinking = carrier + "thinking."
)

// carryCall packs the seal of a call.
func carryCall(seal string) string { return carrierCall + seal }

// carryThinking packs a seal together with the thinking that it seals.
func carryThinking(text []byte, seal string) string {
	return carrierThinking + base64.RawURLEncoding.EncodeToString(text) + "." + seal
}

// openSeal appends what a thinking block stands for, and returns the seal that waits for the next call: the
// one from a carrier, else the one that waited before.
func openSeal(parts []perigee.Part, b *block, waiting string) ([]perigee.Part, string) {
	text, seal := b.thinking, b.signature
	if call, ok := strings.CutPrefix(seal, carrierCall); ok {
		waiting, seal = call, ""
	} else if packed, ok := strings.CutPrefix(seal, carrierThinking); ok {
		hidden, rest, _ := strings.Cut(packed, ".")
		if plain, err := base64.RawURLEncoding.DecodeString(hidden); err == nil {
			seal = rest
			if text == "" {
				text = string(plain)
			}
		}
	}
	if text == "" && seal == "" {
		return parts, waiting
	}
	return append(parts, perigee.Part{Kind: perigee.PartText, Text: text, Thought: true, Signature: seal}), waiting
}
