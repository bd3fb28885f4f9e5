// Command gosdk is the client of the Go SDKs in the end-to-end runs. It is a module of its own, so
// that these SDKs are no dependencies of perigee. The driver starts it with the name of a client,
// and reads one line per scenario: "pass NAME" or "fail NAME: why".
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A scenario is one thing that a client does, and the name it has in the report.
type scenario struct {
	name string
	run  func(context.Context) error
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "read" {
		fmt.Fprintln(os.Stderr, "gosdk:", serveReader(os.Args[2]))
		os.Exit(1)
	}
	clients := map[string][]scenario{
		"chat":          append(chatScenarios(), streamScenarios(askChat)...),
		"responses":     append(responsesScenarios(), streamScenarios(askResponses)...),
		"socket":        socketScenarios(),
		"anthropic":     append(anthropicScenarios(), streamScenarios(askAnthropic)...),
		"messages":      messagesScenarios(),
		"completions":   completionsScenarios(),
		"ollama":        ollamaScenarios(),
		"vertex":        vertexScenarios(),
		"vertex-claude": vertexClaudeScenarios(),
		"genai":         append(genaiScenarios(), streamScenarios(askGenai)...),
	}
	if len(os.Args) != 2 || clients[os.Args[1]] == nil {
		names := strings.Join(slices.Sorted(maps.Keys(clients)), "|")
		fmt.Fprintf(os.Stderr, "usage: gosdk %s, or gosdk read URL\n", names)
		os.Exit(2)
	}
	wanted := strings.Split(os.Getenv("PERIGEE_SCENARIOS"), ",")
	for _, s := range clients[os.Args[1]] {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		if err := limitTime(s.run); err != nil {
			fmt.Printf("fail %s: %s\n", s.name, strings.ReplaceAll(err.Error(), "\n", " | "))
		} else {
			fmt.Printf("pass %s\n", s.name)
		}
	}
}

func limitTime(run func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the SDK or its use panicked: %v", p)
		}
	}()
	return run(ctx)
}

// inTurn runs steps until one fails.
func inTurn(steps ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
