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
	RepairSignatures                       // seals go, with the thoughts that they prove
	RepairThinkingOff                      // the model does not think, and thoughts go
	RepairSchemas                          // tools keep nothing of their schemas but the plainest keywords
)

// repairNames says what each repair was about, in the order of its bit.
var repairNames = [...]string{"pairing of tool calls and results", "order of thinking", "thought signatures", "thinking", "tool schemas"}

// noteRepair tells the client what its request has lost.
func (g *gateway) noteRepair() {
	for i, name := range repairNames {
		if g.repairs(1 << i) {
			g.notes.add(perigee.NoteRepaired, name+" that the provider refused")
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
	case g.repairs(RepairPairing):
		return 0
	case g.spec.Family == models.Image:
		// Models that draw call nothing. What others have called before them is still part of the story.
		if slices.ContainsFunc(list, hasExchange) {
			g.notes.add(perigee.NoteMapped, "tool calls and results to text")
		}
		return 0
	case g.repairs(RepairSignatures) && g.spec.Family == models.Gemini && !slices.ContainsFunc(list, hasSeal):
		// What was refused then is what stood in for seals: the model gets no calls that need one.
		return perigee.CurrentTurn(list)
	default:
		return len(list)
	}
}

func hasExchange(c perigee.Content) bool {
	return slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
		return p.Kind == perigee.PartCall || p.Kind == perigee.PartResponse
	})
}

func hasSeal(c perigee.Content) bool {
	return c.Role == perigee.RoleModel && slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
		return p.Signature != "" && !isSentinel(p.Signature)
	})
}
