//go:build race

package daemon_test

// raced says that the race detector is on: it makes large requests slow, and has memory of its own.
const raced = true
