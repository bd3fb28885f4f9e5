package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes are a process and its children.
func processes(parent int) []int {
	pids := []int{parent}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
