package prepare

import (
	"slices"

	"perigee"
	"perigee/internal/models"
)

// The sentinels are what a provider takes in place of a signature that was lost.
const sentinel = "skip_thought_signature_validator"

func isSentinel(signature string) bool {
	return signature == sentinel || signature == "context_engineering_is_the_way_to_go"
}

// sign sees to it that no call but the first of a step claims to have lost its signature, and that this one has a
// signature in all contents from the given one on.
func sign(list []perigee.Content, from int) {
	for i := range list {
		if list[i].Role == perigee.RoleModel {
			list[i].Parts = signStep(list[i].Parts, i >= from)
		}
	}
}

// signedFrom is the first content whose calls the model wants signed. Generation 3 does so in the current turn; after a
// refusal it is unknown where that turn begins for the provider.
func signedFrom(list []perigee.Content, family models.Family, repair Repair) int {
	switch {
	case family != models.Gemini:
		return len(list)
	case repair&RepairSignatures != 0:
		return 0
	}
	return perigee.CurrentTurn(list)
}

// refusedStandIns says whether a refusal of signatures can only be about what stands in for them, or about calls that have
// none: the conversation has no other. The model is then told of its calls, in whichever turn they are.
func refusedStandIns(list []perigee.Content, family models.Family, repair Repair) bool {
	return repair&RepairSignatures != 0 && family == models.Gemini && !slices.ContainsFunc(list, hasSeal)
}

func hasSeal(c perigee.Content) bool {
	return c.Role == perigee.RoleModel && slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
		return p.Signature != "" && !isSentinel(p.Signature)
	})
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

// withoutSeals returns the content without any signature, and without the thinking that only a signature could prove.
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
