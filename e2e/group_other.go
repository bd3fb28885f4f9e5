//go:build !unix

package main

import "os"

// processRuns reports whether there is a process with this ID. Processes that have ended cannot be
// opened.
func processRuns(id int) bool {
	process, err := os.FindProcess(id)
	if err != nil {
		return false
	}
	_ = process.Release()
	return true
}

// groupRuns is processRuns, because there are no groups here.
func groupRuns(id int) bool { return processRuns(id) }
