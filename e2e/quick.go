package main

import (
	"slices"
	"strings"
)

// everyChange returns the scenarios of a client that every change needs: everything that the documents print and that people
// see, and one scenario of each way to reach perigee. A tool loop has a question in it, tools, and a stream or a whole answer.
func everyChange(c client) []string {
	kind, _, _ := strings.Cut(c.name, " ")
	if kind == "docs" || slices.Contains([]string{"dashboard", "opencode plugin", "vscode extension"}, c.name) {
		return c.scenarios
	}
	if slices.Contains([]string{"mcp asks", "mcp daemon", "change of network"}, c.name) {
		return nil // long runs, of which each has a short test
	}
	for _, scenario := range []string{toolLoop, question} {
		if slices.Contains(c.scenarios, scenario) {
			return []string{scenario}
		}
	}
	return c.scenarios[:1]
}
