//go:build !race

package perigeetest

// Raced reports whether the race detector is on. It has memory of its own, makes everything slow,
// and lets sync.Pool drop what it gets.
const Raced = false
