//go:build race

package daemontest

// Raced says that the race detector is on: it makes large requests slow, and has memory of its own.
const Raced = true
