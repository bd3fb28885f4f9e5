//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing here; without /proc there is no measurement either.
func dieWithParent(*exec.Cmd) {}

// fileLimit is what every system allows.
func fileLimit() int { return 1024 }
