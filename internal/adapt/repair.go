package adapt

import "perigee"

// A Repair is a change of a second attempt after the provider has rejected the first. Several may
// be combined. Each one changes more than the first attempt found necessary.
type Repair uint8

// The repairs.
const (
	// RepairPairing turns calls and results into text, so that nothing has to be paired.
	RepairPairing Repair = 1 << iota
	// RepairThinkingOrder drops thoughts, and closes an open round of tools.
	RepairThinkingOrder
	// RepairSignatures replaces signatures by sentinels and drops thoughts. If there are only
	// sentinels, calls become text.
	RepairSignatures
	// RepairThinkingOff turns thinking off and drops thoughts.
	RepairThinkingOff
	// RepairSchemas reduces the schemas of tools to the plainest keywords.
	RepairSchemas
)

// note adds notes on the parts that the request has lost.
func (r Repair) note(notes *perigee.Notes) {
	for i, what := range [...]string{"pairing of tool calls and results", "order of thinking", "thought signatures", "thinking", "tool schemas"} {
		if r&(1<<i) != 0 {
			notes.Repaired(what + " that the provider refused")
		}
	}
}
