//go:build !amd64

package rawjson

// passBlocks passes nothing: only where a loop in assembly does it is it worth the call.
func passBlocks(_ []byte, i int) (end int, escaped bool) { return i, false }
