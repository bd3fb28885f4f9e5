package prepare

import (
	"slices"

	"perigee"
)

// The sentinels are what a provider takes in place of a signature that was lost.
const sentinel = "skip_thought_signature_validator"

func isSentinel(signature string) bool {
	return signature == sentinel || signature == "context_engineering_is_the_way_to_go"
}

// sign sees to it that no call but the first of a step claims to have lost its signature, and that this one has a
// signature in the current turn where the model demands it, as generation 3 does.
func sign(list []perigee.Content, demanded bool) {
	turn := perigee.CurrentTurn(list)
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			list[i].Parts = signStep(list[i].Parts, demanded && i >= turn)
		}
	}
}

// signStep returns the parts of a step with the signatures of its calls in order. The parts given stay as they are.
func signStep(parts []perigee.Part, demanded bool) []perigee.Part {
	first, owned := true, false
	for i := range parts {
		if parts[i].Kind != perigee.PartCall {
			continue
		}
		signature := parts[i].Signature
		switch {
		case first && signature == "" && demanded:
			signature = sentinel
		case !first && isSentinel(signature):
			signature = ""
		}
		first = false
		if signature == parts[i].Signature {
			continue
		}
		if !owned {
			parts, owned = slices.Clone(parts), true
		}
		parts[i].Signature = signature
	}
	return parts
}

// WithoutSeals returns the prompt without any signature in its history, and without the thinking that only a
// signature could prove.
func WithoutSeals(p *perigee.Prompt) *perigee.Prompt {
	bare := *p
	bare.Contents = make([]perigee.Content, len(p.Contents))
	for i, c := range p.Contents {
		bare.Contents[i] = withoutSeals(c)
	}
	return &bare
}

func withoutSeals(c perigee.Content) perigee.Content {
	parts := make([]perigee.Part, 0, len(c.Parts))
	for _, part := range c.Parts {
		part.Signature = ""
		if !part.Thought {
			parts = append(parts, part)
		}
	}
	c.Parts = parts
	return c
}
