package adapt

import (
	"slices"

	"perigee"
)

// The gateway rejects members that it has no field for. These are the fields that it has, beside
// those that a Prompt names.
var (
	requestMembers    = []string{"safetySettings", "sessionId", "cachedContent", "labels"}
	partMembers       = []string{"videoMetadata"}
	otherMembers      = []string{"executableCode", "codeExecutionResult", "videoMetadata"}
	mediaMembers      = []string{"displayName"}
	responseMembers   = []string{"willContinue", "scheduling"}
	functionMembers   = []string{"behavior"}
	toolConfigMembers = []string{"retrievalConfig"}
	searchMembers     = []string{"timeRangeFilter", "searchTypes", "excludeDomains", "enhancedContent", "includedDomains"}
	generationMembers = []string{"responseLogprobs", "logprobs", "enableEnhancedCivicAnswers", "speechConfig", "imageConfig",
		"mediaResolution", "audioTimestamp", "routingConfig"}
)

// supported returns a copy of the fields that the gateway supports, each once. For the official API
// it returns fields unchanged.
func (a *adapter) supported(fields perigee.Fields, where string, members []string) perigee.Fields {
	if !a.gateway {
		return fields
	}
	var kept perigee.Fields
	for _, f := range fields {
		switch value := tidy(f.Value); {
		case value == nil || kept.Get(f.Name) != nil:
		case slices.Contains(members, f.Name):
			kept = append(kept, perigee.Field{Name: f.Name, Value: value})
		case f.Name != serverSide: // which some dialects add themselves
			a.notes.Dropped(where + clip(f.Name))
		}
	}
	return kept
}

// clip returns the first bytes of a name that the client chose, for notes.
func clip(name string) string { return perigee.Clip(name, 80) }
