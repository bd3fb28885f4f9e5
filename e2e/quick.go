package main

import (
	"slices"
	"strings"
)

// everyChange returns the scenarios of a client that every change needs: everything that the
// documents print and that people see, and one scenario of each way to reach perigee. A tool loop
// has a question in it, tools, and a stream or a whole answer.
func everyChange(c client) []string {
	if c.provider != nil {
		return ofProvider(c)
	}
	kind, _, _ := strings.Cut(c.name, " ")
	if kind == "docs" || kind == "first" || slices.Contains([]string{"dashboard", "opencode plugin", "vscode extension", "perigee service"}, c.name) {
		return c.scenarios
	}
	if kind == "upgrade" || kind == "rolling" || slices.Contains([]string{"change of network", "go install", "mcp asks", "mcp daemon", "debian package", "container image"}, c.name) {
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

// withProviders are the agents that every change needs with each kind of upstream: once with openai,
// in one of its APIs, and once with anthropic.
var withProviders = []string{
	"claude code from openai responses", "claude code from anthropic",
	"codex from openai chat", "codex from anthropic",
	"gemini cli from openai responses", "gemini cli from anthropic",
	"qwen code from openai chat", "qwen code from anthropic",
	"copilot messages from openai responses", "copilot chat from anthropic",
	"opencode google from openai chat", "opencode openai-compatible from anthropic",
}

// ofProvider is everyChange for a client that a provider answers: a tool loop of the agents in
// withProviders, and of all SDKs with the providers' own servers, and what the SDK reads of it.
func ofProvider(c client) []string {
	sdk := c.install == sdkInstall || c.install == goInstall
	if !slices.Contains(withProviders, c.name) && !(sdk && c.provider.profile == "") {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.scenarios), func(s string) bool { return s != toolLoop && s != written })
}
