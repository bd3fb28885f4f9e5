//go:build race

package rawjson_test

// The race detector makes sync.Pool drop things at random and everything slow.
const underRace = true
