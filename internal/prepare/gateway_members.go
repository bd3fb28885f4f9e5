package prepare

import (
	"slices"

	"perigee"
)

// The gateway refuses whatever it has no field for. These are the fields that it has, beside those that a Prompt has a
// name for.
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

// known returns the fields that the gateway knows, each once. Where none is unknown, they are the client's own.
func (g *gateway) known(fields perigee.Fields, where string, members []string) perigee.Fields {
	if len(fields) == 0 {
		return nil
	}
	seen, fine := 0, true
	for i := range fields {
		bit := 1 << (slices.Index(members, fields[i].Name) + 1)
		fine = fine && bit > 1 && seen&bit == 0 && !untidy(fields[i].Value)
		seen |= bit
	}
	if fine {
		return fields
	}
	var kept perigee.Fields
	seen = 0
	for _, f := range fields {
		bit := 1 << (slices.Index(members, f.Name) + 1)
		switch value := tidy(f.Value); {
		case value == nil || bit > 1 && seen&bit != 0:
		case bit > 1:
			kept = append(kept, perigee.Field{Name: f.Name, Value: value})
			seen |= bit
		case f.Name != serverSide: // which is perigee's own doing in some dialects
			g.notes.add(perigee.NoteDropped, where+clip(f.Name))
		}
	}
	return kept
}
