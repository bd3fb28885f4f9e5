package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// mcpAgents are coding agents with perigee as MCP server. Each reads a file, writes one, and asks.
// The model that they ask, which has them use the tools, is the simulator.
func mcpAgents() []client {
	double := func(tool string) string { return "mcp__perigee__" + tool }
	single := func(tool string) string { return "mcp_perigee_" + tool }
	plain := func(tool string) string { return "perigee_" + tool }
	var clients []client
	for _, m := range []struct {
		agent     agent
		tool      func(string) string
		scenarios []string
	}{
		{claudeCode("claude code", "claude-sonnet-4-6", ""), double, []string{mcpStdio, mcpHTTP, mcpLangserver}},
		{codex("codex", false), double, []string{mcpStdio, mcpHTTP}},
		{geminiCLI(), single, []string{mcpStdio, mcpHTTP}},
		{openCode("openai-compatible", "/v1", "gemini-3-flash"), plain, []string{mcpStdio, mcpHTTP, mcpIDE}},
	} {
		a := m.agent
		clients = append(clients, client{
			name: "mcp " + strings.TrimSuffix(a.name, " openai-compatible"), version: pinnedPackage(a.install, a.library), install: a.install,
			scenarios: m.scenarios, together: true,
			run: func(ctx context.Context, s *stage, c client, r *report) {
				var together sync.WaitGroup
				for _, scenario := range c.scenarios {
					together.Go(func() { r.add(c, scenario, a.usesMCP(ctx, s, scenario, m.tool)) })
				}
				together.Wait()
			},
		})
	}
	return clients
}

// mcpPlaces are for agents that run at the same time: each takes a processor for seconds.
var mcpPlaces = make(chan struct{}, 3)

// usesMCP has an agent read, write and ask with the tools of perigee's MCP server.
func (a agent) usesMCP(ctx context.Context, s *stage, scenario string, tool func(string) string) error {
	home, err := os.MkdirTemp(s.dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	e := errand{home: home, work: filepath.Join(home, "work"), base: s.simulated, key: s.key, model: a.model}
	if err := os.Mkdir(e.work, 0o700); err != nil {
		return err
	}
	server, files, err := s.mcpTarget(ctx, scenario, filepath.Base(home))
	if err != nil {
		return err
	}
	e.mcp = &server.mcpServer
	inFile, written, answered := newToken(), newToken(), newToken()
	if err := os.WriteFile(filepath.Join(files.dir, "north.txt"), []byte(inFile+"\n"), 0o600); err != nil {
		return err
	}
	e.prompt = "Read north.txt, write south.txt, and ask Antigravity. " + strings.Join([]string{
		call(tool("read_file"), object{"path": files.prefix + "north.txt"}),
		call(tool("write_file"), object{"path": files.prefix + "south.txt", "content": written}),
		call(tool("ask_antigravity"), object{"prompt": inHalves(answered)}),
	}, " ")
	if a.install == "opencode" {
		a.answer = keepTranscript(scenario, a.answer)
	}
	mcpPlaces <- struct{}{}
	said, err := a.do(ctx, e)
	<-mcpPlaces
	if err != nil {
		return err
	}
	onDisk, err := os.ReadFile(filepath.Join(files.dir, "south.txt"))
	if err != nil || string(onDisk) != written {
		return fmt.Errorf("the written file has %q, %v, want %q; the agent says %q", onDisk, err, written, said)
	}
	for what, wanted := range map[string]string{
		"what read_file has read":           inFile,
		"the hash that write_file returned": fmt.Sprintf("%x", sha256.Sum256(onDisk)),
		"what was answered":                 answered,
	} {
		if !strings.Contains(said, wanted) {
			return fmt.Errorf("the agent says %q, without %s, %q", said, what, wanted)
		}
	}
	if strings.Contains(said, simulatedLine) != (server.source == "simulator") {
		return fmt.Errorf("the agent says %q after an answer of %s", said, server.source)
	}
	return nil
}

// inHalves are directives for an answer whose text is not in the prompt.
func inHalves(answer string) string {
	half := len(answer) / 2
	return "[[text: " + answer[:half] + "]][[text: " + answer[half:] + "]]"
}

// keepTranscript writes what OpenCode did into the cache, for documents, and returns its answer.
func keepTranscript(scenario string, answer func(errand, []byte) (string, error)) func(errand, []byte) (string, error) {
	return func(e errand, stdout []byte) (string, error) {
		said, err := answer(e, stdout)
		if err != nil {
			return "", err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "$ opencode run   # %s\n> %s\n", scenario, e.prompt)
		for line := range strings.Lines(string(stdout)) {
			var event struct {
				Type string
				Part struct {
					Tool  string
					State struct {
						Input  json.RawMessage
						Output string
					}
				}
			}
			if json.Unmarshal([]byte(line), &event) == nil && event.Type == "tool_use" {
				fmt.Fprintf(&text, "\n[%s] %s\n%s\n", event.Part.Tool, event.Part.State.Input, strings.TrimSpace(event.Part.State.Output))
			}
		}
		fmt.Fprintf(&text, "\n%s\n", said)
		path := cached("transcripts", "opencode-"+shortScenario[scenario]+".txt")
		return said, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text.String()), 0o644))
	}
}
