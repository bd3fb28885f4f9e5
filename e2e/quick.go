package main

import (
	"slices"
	"strings"
)

// everyChange returns the scenarios of a client that every change needs: everything that the
// documents print and that people see, and one scenario of each way to reach perigee. A tool loop
// has a question in it, tools, and a stream or a whole answer.
func everyChange(c client) []string {
	kind, _, _ := strings.Cut(c.name, " ")
	if kind == "docs" || slices.Contains([]string{"dashboard", "opencode plugin", "vscode extension"}, c.name) {
		return c.scenarios
	}
	if slices.Contains([]string{"change of network", "go install", "mcp asks", "mcp daemon"}, c.name) {
		return nil // minutes, in which compiling or waiting is most
	}
	if kind == "stream" && !slices.Contains([]string{sdkInstall, frameworkInstall, goInstall}, c.install) {
		return nil // an agent asks again after pauses, and a second version of a library is a second one to compile
	}
	for _, scenario := range []string{toolLoop, question} {
		if !slices.Contains(c.scenarios, scenario) {
			continue
		}
		if slices.Contains(c.scenarios, usedUp) && kind != "ai" { // the AI SDK takes six seconds for its retries
			return []string{scenario, usedUp}
		}
		return []string{scenario}
	}
	return c.scenarios[:1]
}
