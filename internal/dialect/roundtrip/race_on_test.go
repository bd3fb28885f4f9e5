//go:build race

package roundtrip

// raceEnabled says that the race detector is on, which allocates for itself.
const raceEnabled = true
