package adapt

import "perigee"

// A Repair is a change of a second attempt after the provider has rejected the first. Several may
// be combined. Each one changes more than the first attempt found necessary.
type Repair uint8

// The repairs.
const (
	RepairPairing       Repair = 1 << iota // calls and results become text, so that nothing is left to pair
	RepairThinkingOrder                    // thoughts are dropped, and an open round of tools is closed
	RepairSignatures                       // signatures and thoughts give way to sentinels; where there are none, calls become text
	RepairThinkingOff                      // the model does not think, and thoughts are dropped
	RepairSchemas                          // tools keep only the plainest keywords of their schemas
)

// note adds notes on the parts that the request has lost.
func (r Repair) note(notes *perigee.Notes) {
	for i, what := range [...]string{"pairing of tool calls and results", "order of thinking", "thought signatures", "thinking", "tool schemas"} {
		if r&(1<<i) != 0 {
			notes.Repaired(what + " that the provider refused")
		}
	}
}
