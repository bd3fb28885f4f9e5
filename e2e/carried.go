package main

import "context"

// carriedClients are programs whose tools, parameters, tool results and images travel inside the
// calls of a language server. They share one daemon.
func carriedClients() []client {
	var clients []client
	for _, a := range []agent{
		claudeCode("claude code", "claude-sonnet-4-6", ""), codex("codex", false), geminiCLI(), openCode("openai-compatible", "/v1", "gemini-3-flash"),
	} {
		a.name += " language server"
		a.carried = true
		clients = append(clients, a.client())
	}
	sdk := javascript("anthropic js language server", "@anthropic-ai/sdk", []string{toolLoop, parallel, toolRun, dialogue}, "anthropic.mjs", "@anthropic-ai/sdk")
	sdk.carried = true
	return append(clients, sdk)
}

// serveCarried runs a daemon whose only upstream is a language server, once.
func (s *stage) serveCarried(ctx context.Context) (string, error) {
	s.carrying.Do(func() {
		s.carried, s.uncarried = newHeadless(ctx, s, "carried", headlessConfig(s.key, s.witness.url, quickSigns, ""))
	})
	return s.carried.url, s.uncarried
}
