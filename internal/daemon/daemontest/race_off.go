//go:build !race

package daemontest

// Raced says that the race detector is on.
const Raced = false
