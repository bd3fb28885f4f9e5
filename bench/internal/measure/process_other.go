//go:build !linux

package measure

import "os/exec"

// dieWithParent does nothing here; without /proc there is no measurement either.
func dieWithParent(*exec.Cmd) {}

// FileLimit is what every system allows.
func FileLimit() int { return 1024 }
