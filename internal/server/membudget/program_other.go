//go:build !linux

package membudget

// releaseProgram does nothing: other systems do not report which pages of the program can be read
// again from its file.
func releaseProgram() {}
