//go:build !linux

package extserver

import "os/exec"

// dieWithThread does nothing where the kernel cannot.
func dieWithThread(*exec.Cmd) {}
