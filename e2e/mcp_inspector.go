package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// mcpTools are the tools that perigee offers to a client with files, and arguments with which a
// call of each succeeds.
var mcpTools = map[string]object{
	"read_file":          {"path": "a.txt"},
	"write_file":         {"path": "b.txt", "content": "written"},
	"list_files":         {},
	"ask_antigravity":    {"prompt": "[[text: asked]]"},
	"list_models":        {},
	"quota":              {},
	"usage":              {"by": "model"},
	"explain_last_error": {},
}

// mcpInspector is the Inspector's command-line mode: it lists the tools, checks their schemas, and
// calls each.
func mcpInspector() client {
	return client{
		name: "mcp inspector", version: pinnedPackage(mcpInstall, "@modelcontextprotocol/inspector"), install: mcpInstall,
		scenarios: []string{mcpStdio, mcpHTTP}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			for _, scenario := range c.scenarios {
				r.add(c, scenario, inspect(ctx, s, scenario))
			}
		},
	}
}

func inspect(ctx context.Context, s *stage, scenario string) error {
	target, files, err := s.mcpTarget(ctx, scenario, "inspector")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(files.dir, "a.txt"), []byte("in the file\n"), 0o600); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "inspector-"+filepath.Base(files.dir)+".json")
	if err := os.WriteFile(config, []byte(target.inspector()), 0o600); err != nil {
		return err
	}
	i := &inspector{home: s.dir, config: config}
	if err := i.lists(ctx, "legacy"); err != nil {
		return err
	}
	if err := i.lists(ctx, "modern"); err != nil {
		return err
	}
	var together sync.WaitGroup
	results := make(chan error, len(mcpTools))
	places := make(chan struct{}, 3) // each takes half a second of a processor
	for name, arguments := range mcpTools {
		if path, ok := arguments["path"].(string); ok {
			arguments = object{"path": files.prefix + path}
			if content, ok := mcpTools[name]["content"]; ok {
				arguments["content"] = content
			}
		}
		together.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			results <- i.calls(ctx, name, arguments)
		})
	}
	together.Wait()
	close(results)
	var failed []error
	for err := range results {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// An inspector is the Inspector with a configuration that names one server.
type inspector struct{ home, config string }

// inspector is a configuration of the Inspector.
func (m *mcpServer) inspector() string {
	server := object{"type": "streamable-http", "url": m.url, "headers": m.headers()}
	if m.url == "" {
		server = object{"type": "stdio", "command": m.command[0], "args": m.command[1:], "env": m.env}
	}
	return encodeJSON(object{"mcpServers": object{"perigee": server}})
}

// lists has the tools listed and their schemas checked; --strict fails for those that some clients
// do not accept.
func (i *inspector) lists(ctx context.Context, era string) error {
	out, err := i.run(ctx, "--protocol-era", era, "--method", "tools/list", "--strict")
	if err != nil {
		return err
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(out, &list); err != nil {
		return fmt.Errorf("the list of tools: %w: %s", err, firstLines(string(out), 5))
	}
	for name := range mcpTools {
		if !slices.ContainsFunc(list.Tools, func(tool struct{ Name string }) bool { return tool.Name == name }) {
			return fmt.Errorf("there is no tool %s in %+v", name, list.Tools)
		}
	}
	if len(list.Tools) != len(mcpTools) {
		return fmt.Errorf("there are further tools: %+v", list.Tools)
	}
	return nil
}

func (i *inspector) calls(ctx context.Context, tool string, arguments object) error {
	out, err := i.run(ctx, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", encodeJSON(arguments))
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	var result struct {
		IsError           bool
		StructuredContent map[string]json.RawMessage
		Content           []struct{ Type, Text string }
	}
	if err := json.Unmarshal(out, &result); err != nil || result.IsError || len(result.StructuredContent) == 0 || len(result.Content) == 0 {
		return fmt.Errorf("the result of %s: %v: %s", tool, err, firstLines(string(out), 20))
	}
	return nil
}

// run has the Inspector print one result.
func (i *inspector) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	script := cached(mcpInstall, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	cmd := exec.CommandContext(ctx, newNode(), append([]string{script, "--cli", "--config", i.config, "--server", "perigee", "--quiet"}, args...)...)
	cmd.Env = []string{"HOME=" + i.home, "PATH=" + os.Getenv("PATH"), "MCP_INSPECTOR_SECRET_STORE=memory"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("inspector %s: %w: %s", strings.Join(args, " "), err, lastBytes(string(out)+"\n"+stderr.String(), 2000))
	}
	return out, nil
}
