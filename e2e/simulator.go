package main

import "context"

// simulatorSDKs are official libraries that speak to the simulator itself, so that it is examined by
// the code of the providers that it simulates.
func simulatorSDKs() []client {
	messages := golang("simulator anthropic go", "github.com/anthropics/anthropic-sdk-go",
		[]string{question, toolLoop, "thinking", "prompt cache", "search", "tokens and models", refusal}, "messages")
	completions := golang("simulator openai go", "github.com/openai/openai-go/v3",
		[]string{question, toolLoop, parallel, "thinking", "custom tool", "structured output", "tokens and models", refusal}, "completions")
	ollama := golang("simulator ollama go", "github.com/ollama/ollama",
		[]string{question, toolLoop, parallel, "thinking", image, "structured output", "log probabilities", "memory", "embeddings", "tokens and models", refusal}, "ollama")
	vertex := golang("simulator genai go vertex", "google.golang.org/genai",
		[]string{question, toolLoop, "credentials", "locations", "structured output", "embeddings", "tokens and models", refusal}, "vertex")
	claude := golang("simulator anthropic go vertex", "github.com/anthropics/anthropic-sdk-go",
		[]string{question, toolLoop, "locations", "search", "tokens", refusal}, "vertex-claude")
	clients := []client{messages, completions, ollama, vertex, claude}
	for i := range clients {
		clients[i].simulator = true
	}
	return clients
}

// serveSimulator runs a simulator that no daemon uses, once.
func (s *stage) serveSimulator(ctx context.Context) (string, error) {
	s.examining.Do(func() {
		s.examined, s.unexamined = s.start(ctx, "sdk-simulator", s.binary, "simulate", "--listen", "127.0.0.1:0")
	})
	return s.examined, s.unexamined
}
