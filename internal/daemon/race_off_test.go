//go:build !race

package daemon_test

// raced says that the race detector is on.
const raced = false
