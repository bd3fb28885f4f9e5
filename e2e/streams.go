package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Streams in trouble. A library must throw on the first, with perigee's message, and read the
// second to its end.
const (
	brokenStream = "broken stream" // the provider breaks off in the middle
	silentStream = "silent stream" // 20 seconds before the first chunk, and 20 before the second
)

var streamScenarios = []string{brokenStream, silentStream}

// troubledStreams are the libraries and agents with streams in trouble. They run at the same time,
// because all they do is wait.
func troubledStreams() []client {
	var clients []client
	for _, l := range []struct{ install, library, argument string }{
		{sdkInstall, "@google/genai", "@google/genai"},
		{frameworkInstall, "genai-1.52", "genai-1.52"},
		{frameworkInstall, "genai-1.30", "genai-1.30"},
		{frameworkInstall, "@google/generative-ai", "@google/generative-ai"},
		{frameworkInstall, "@langchain/google-genai", "@langchain/google-genai"},
		{frameworkInstall, "genkit", "genkit"},
		{frameworkInstall, "@google/adk", "@google/adk"},
		{sdkInstall, "ai", "ai google"},
		{sdkInstall, "ai", "ai openai"},
		{sdkInstall, "ai", "ai openai-compatible"},
		{sdkInstall, "ai", "ai anthropic"},
		{sdkInstall, "openai", "openai chat"},
		{sdkInstall, "openai", "openai responses"},
		{sdkInstall, "@anthropic-ai/sdk", "@anthropic-ai/sdk"},
		{sdkInstall, "anthropic-sdk-0", "anthropic-sdk-0"},
	} {
		clients = append(clients, javascriptIn(l.install, "stream "+l.argument, l.library, streamScenarios, "streams.mjs", l.argument))
	}
	clients = append(clients,
		golang("stream openai go chat", "github.com/openai/openai-go/v3", streamScenarios, "chat"),
		golang("stream openai go responses", "github.com/openai/openai-go/v3", streamScenarios, "responses"),
		golang("stream anthropic go", "github.com/anthropics/anthropic-sdk-go", streamScenarios, "anthropic"),
		golang("stream genai go", "google.golang.org/genai", streamScenarios, "genai"),
		oldGenai())
	for _, a := range []agent{
		geminiCLI(), qwen(), pi(), claudeCode("claude code", "claude-sonnet-4-6", ""), codex("codex", false),
		openCode("google", "/v1beta", "gemini-3-flash"), copilotOver("chat", "gemini-2.5-pro"),
	} {
		clients = append(clients, a.streamClient())
	}
	for i := range clients {
		clients[i].together = true
	}
	return clients
}

// streamClient is an agent with streams in trouble.
func (a agent) streamClient() client {
	return client{
		name: "stream " + a.name, version: pinnedPackage(a.install, a.library), install: a.install, scenarios: streamScenarios,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			var together sync.WaitGroup
			for _, scenario := range c.scenarios {
				together.Go(func() { r.add(c, scenario, a.endure(ctx, s, scenario)) })
			}
			together.Wait()
		},
	}
}

// endure runs an agent through one stream in trouble. Of one that breaks off, it must have another
// try, or tell its user what perigee said.
func (a agent) endure(ctx context.Context, s *stage, scenario string) error {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	e := errand{home: home, work: filepath.Join(home, "work"), base: s.shaky, key: s.key, model: a.model}
	if err := os.Mkdir(e.work, 0o700); err != nil {
		return err
	}
	wanted := newToken()
	e.prompt = "[[text: it is " + wanted + "]] [[chunks: 2]] [[pace: 20s]] think long " + wanted
	if scenario == brokenStream {
		e.prompt = "[[text: one two three four five six " + wanted + "]] [[chunks: 7]] cut first " + wanted
	}
	said, err := a.do(ctx, e)
	switch {
	case scenario == brokenStream && !s.provider.wasCut(wanted):
		return fmt.Errorf("no stream was broken off; the agent says %q, %v", said, err)
	case scenario == brokenStream && err != nil && !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "shaky"):
		return nil // the user is told
	case err != nil:
		return err
	case !strings.Contains(said, wanted):
		return fmt.Errorf("the agent is content with %q, which is not all that the model said", said)
	}
	return nil
}
