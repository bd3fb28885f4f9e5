package prepare

import (
	"slices"

	"perigee"
	"perigee/internal/models"
)

// A Repair is what a second attempt does otherwise after the provider has refused the first. Several may be combined.
// Each one changes more than preparation found necessary, because preparation was wrong.
type Repair uint8

// The repairs.
const (
	RepairPairing       Repair = 1 << iota // calls and results become text, so that nothing is left to pair
	RepairThinkingOrder                    // thoughts go, and an open round of tools is closed
	RepairSignatures                       // seals go, with the thoughts that they prove, and stand-ins come for all of them; without seals calls become text
	RepairThinkingOff                      // the model does not think, and thoughts go
	RepairSchemas                          // tools keep nothing of their schemas but the plainest keywords
)

// note tells the client what its request has lost.
func (r Repair) note(notes *notes) {
	for i, what := range [...]string{"pairing of tool calls and results", "order of thinking", "thought signatures", "thinking", "tool schemas"} {
		if r&(1<<i) != 0 {
			notes.add(perigee.NoteRepaired, what+" that the provider refused")
		}
	}
}

// thoughtless says whether no thought may stay, whatever its seal.
func (g *gateway) thoughtless() bool {
	return g.repairs(RepairThinkingOrder | RepairSignatures | RepairThinkingOff)
}

// toldFrom is the index of the first content whose calls and results are told as texts.
func (g *gateway) toldFrom() int {
	switch list := g.prompt.Contents; {
	case g.repairs(RepairPairing), refusedStandIns(list, g.spec.Family, g.opts.Repair):
		return 0
	case g.spec.Family == models.Image:
		// Models that draw call nothing. What others have called before them is still part of the story.
		if slices.ContainsFunc(list, hasExchange) {
			g.notes.add(perigee.NoteMapped, "tool calls and results to text")
		}
		return 0
	default:
		return len(list)
	}
}

func hasExchange(c perigee.Content) bool {
	return slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
		return p.Kind == perigee.PartCall || p.Kind == perigee.PartResponse
	})
}
