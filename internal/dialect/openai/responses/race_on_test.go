//go:build race

package responses

// raceEnabled says that the race detector is on, which allocates for itself.
const raceEnabled = true
