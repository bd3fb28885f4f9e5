package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// An mcpServer is an MCP server as the settings of a client name it: a command, or a URL with a
// key. The settings are those that docs/mcp.md prints, with the time limits there.
type mcpServer struct {
	command []string
	env     map[string]string
	url     string
	key     string
}

func encodeJSON(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic("e2e: settings that are no JSON: " + err.Error())
	}
	return string(encoded)
}

func (m *mcpServer) headers() object { return object{"Authorization": "Bearer " + m.key} }

// claudeCode are arguments; they follow those that list the allowed tools.
func (m *mcpServer) claudeCode() []string {
	if m == nil {
		return nil
	}
	server := object{"type": "http", "url": m.url, "headers": m.headers()}
	if m.url == "" {
		server = object{"type": "stdio", "command": m.command[0], "args": m.command[1:], "env": m.env}
	}
	return []string{"mcp__perigee", "--strict-mcp-config", "--mcp-config", encodeJSON(object{"mcpServers": object{"perigee": server}})}
}

// codex is a part of config.toml. Strings and lists of JSON are also TOML.
func (m *mcpServer) codex() string {
	switch {
	case m == nil:
		return ""
	case m.url != "":
		return fmt.Sprintf("\n[mcp_servers.perigee]\nurl = %q\nbearer_token_env_var = \"PERIGEE_KEY\"\n", m.url)
	}
	var env strings.Builder
	for name, value := range m.env {
		fmt.Fprintf(&env, "%s = %s\n", name, encodeJSON(value))
	}
	return fmt.Sprintf("\n[mcp_servers.perigee]\ncommand = %s\nargs = %s\ntool_timeout_sec = 600\n\n[mcp_servers.perigee.env]\n%s", encodeJSON(m.command[0]), encodeJSON(m.command[1:]), &env)
}

// geminiCLI is a further member of settings.json.
func (m *mcpServer) geminiCLI() string {
	if m == nil {
		return ""
	}
	server := object{"httpUrl": m.url, "headers": m.headers()}
	if m.url == "" {
		server = object{"command": m.command[0], "args": m.command[1:], "env": m.env, "timeout": 600000}
	}
	return `,"mcpServers":` + encodeJSON(object{"perigee": server})
}

// openCode is a value of "mcp" in opencode.json.
func (m *mcpServer) openCode() object {
	if m.url != "" {
		return object{"type": "remote", "url": m.url, "headers": m.headers()}
	}
	return object{"type": "local", "command": m.command, "environment": m.env, "timeout": 600000}
}
