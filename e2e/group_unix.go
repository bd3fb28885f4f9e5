//go:build unix

package main

import "syscall"

// processRuns reports whether there is a process with this ID.
func processRuns(id int) bool { return syscall.Kill(id, 0) == nil }

// groupRuns reports whether the process group with this ID has a process.
func groupRuns(id int) bool { return syscall.Kill(-id, 0) == nil }
