package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// How MCP clients reach perigee, and what answers their asks, by the names that stand in the
// report.
const (
	mcpStdio      = "perigee mcp"
	mcpHTTP       = "/mcp"
	mcpIDE        = "perigee mcp, an IDE answers"
	mcpLangserver = "/mcp, a language server answers"
)

var shortScenario = map[string]string{mcpStdio: "stdio", mcpHTTP: "http", mcpIDE: "ide", mcpLangserver: "langserver"}

// simulatedLine is the first line of an answer of the built-in simulator.
const simulatedLine = "[perigee simulator: no model is configured]"

// An mcpTarget is an MCP server and the source of its answers.
type mcpTarget struct {
	mcpServer
	source string
}

// mcpFiles is a directory inside the roots of an MCP server, and what its paths begin with.
type mcpFiles struct{ dir, prefix string }

// mcpTarget returns an MCP server for a scenario, with a directory for files. Without an IDE and a
// language server nothing is configured that could answer.
func (s *stage) mcpTarget(ctx context.Context, scenario, name string) (mcpTarget, mcpFiles, error) {
	switch scenario {
	case mcpStdio:
		dir := filepath.Join(s.dir, "mcp-"+name)
		return mcpTarget{s.mcpCommand("mcp-"+name, "--root", dir), "simulator"}, mcpFiles{dir: dir}, os.MkdirAll(dir, 0o700)
	case mcpHTTP:
		target, files, err := s.mcpDaemon(ctx)
		files = mcpFiles{filepath.Join(files.dir, name), name + "/"}
		return target, files, errors.Join(err, os.MkdirAll(files.dir, 0o700))
	}
	return s.mcpBehind(ctx, scenario, "mcp-"+name, s.provider.target)
}

// mcpCommand runs perigee mcp in the surroundings of a perigee with a name.
func (s *stage) mcpCommand(name string, args ...string) mcpServer {
	m := mcpServer{command: append([]string{s.binary, "mcp"}, args...), env: map[string]string{}}
	for _, variable := range s.env(name) {
		key, value, _ := strings.Cut(variable, "=")
		m.env[key] = value
	}
	return m
}

// mcpDaemon serves /mcp, once, with nothing but a key and a directory configured.
func (s *stage) mcpDaemon(ctx context.Context) (mcpTarget, mcpFiles, error) {
	dir := filepath.Join(s.dir, "mcp-files")
	s.mcpServing.Do(func() {
		s.mcpURL, s.mcpFailed = s.serveMCP(ctx, "mcp", dir, mcpRoots(dir, ""))
	})
	return mcpTarget{mcpServer{url: s.mcpURL + "/mcp", key: s.key}, "simulator"}, mcpFiles{dir: dir}, s.mcpFailed
}

// serveMCP starts a daemon with a key and a further configuration.
func (s *stage) serveMCP(ctx context.Context, name, dir, more string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	config, err := s.writeConfig(name, fmt.Sprintf("keys: [{name: client, secret: %s}]\n", s.key)+more)
	if err != nil {
		return "", err
	}
	return s.start(ctx, name, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
}

// mcpRoots is the section mcp with a directory, and with a model if one is named.
func mcpRoots(dir, model string) string {
	return fmt.Sprintf("mcp: {roots: [%q], http_write: true, model: %q}\n", dir, model)
}

func (s *stage) writeConfig(name, text string) (path string, err error) {
	path = filepath.Join(s.dir, name+".yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// mcpBehind returns an MCP server whose asks are answered by a provider, or by an agent that asks
// this provider.
func (s *stage) mcpBehind(ctx context.Context, scenario, name, provider string) (mcpTarget, mcpFiles, error) {
	dir := filepath.Join(s.dir, name+"-files")
	files := mcpFiles{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return mcpTarget{}, files, err
	}
	cloud := mcpRoots(dir, "gemini-3-flash") + fmt.Sprintf("upstreams:\n  - {name: cloud, kind: gemini, url: %q, keys: [any]}\n", provider)
	switch scenario {
	case mcpStdio:
		config, err := s.writeConfig(name, cloud)
		return mcpTarget{s.mcpCommand(name, "--config", config, "--root", dir), "cloud"}, files, err
	case mcpHTTP:
		url, err := s.serveMCP(ctx, name, dir, cloud)
		return mcpTarget{mcpServer{url: url + "/mcp", key: s.key}, "cloud"}, files, err
	case mcpLangserver:
		daemon, err := newHeadless(ctx, s, name, headlessConfig(s.key, provider, mcpRoots(dir, ""), ""))
		return mcpTarget{mcpServer{url: daemon.url + "/mcp", key: s.key}, "langserver"}, files, err
	case mcpIDE:
		if err := s.openWindow(ctx, name+"-window", dir, provider); err != nil {
			return mcpTarget{}, files, err
		}
		config, err := s.writeConfig(name, "upstreams:\n  - {name: window, kind: ide, accept_terms_risk: true}\n")
		return mcpTarget{s.mcpCommand(name, "--config", config, "--root", dir), "ide"}, files, err
	}
	return mcpTarget{}, files, fmt.Errorf("there is no scenario %q for MCP clients", scenario)
}

// openWindow starts the stand-in language server with the command line and the home directory that
// a window of the IDE gives it. A daemon takes the part of the window: it signs in and keeps the
// process.
func (s *stage) openWindow(ctx context.Context, name, workspace, provider string) error {
	program := filepath.Join(s.dir, name+"-bin", "language_server_linux_x64")
	home := filepath.Join(s.dir, name+"-home")
	script := fmt.Sprintf("#!/bin/bash\nexport HOME=%q\nexec -a \"$0\" %q simulate langserver \"$@\"\n", home, s.binary)
	if err := errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(filepath.Dir(program), 0o700), os.WriteFile(program, []byte(script), 0o700)); err != nil {
		return err
	}
	config := strings.Replace(headlessConfig(s.key, provider, "", ""), "binary: simulator", fmt.Sprintf("binary: %q\n    workspace: %q", program, workspace), 1)
	window, err := newHeadless(ctx, s, name, config)
	if err != nil {
		return err
	}
	_, err = window.await(ctx, "a window that was opened", func(status langserverStatus) bool { return status.State == "ready" })
	return err
}
