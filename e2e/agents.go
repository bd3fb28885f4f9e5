package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// agents are the coding agents, set up as their users would, minus everything that calls home.
func agents() []client {
	all := []agent{
		claudeCode("claude code", "claude-sonnet-4-6", "claude-sonnet-4-99"),
		// With a model that it does not know, it puts system messages between the rest.
		claudeCode("claude code gemini", "gemini-2.5-pro", "gemini-2.5-prq"),
		codex("codex", false), codex("codex socket", true), copilot(), geminiCLI(), qwen(), pi(),
	}
	for _, wire := range []string{"chat", "responses", "messages"} {
		for _, model := range []string{"gemini-2.5-pro", "claude-sonnet-4-6"} {
			all = append(all, copilotOver(wire, model))
		}
	}
	all = append(all, openCodes()...)
	all = append(all,
		throughGateway(claudeCode("claude code", "claude-sonnet-4-6", "")), throughGateway(claudeCode("claude code gemini", "gemini-3-flash", "")),
		throughGateway(codex("codex", false)), throughGateway(geminiCLI()))
	var clients []client
	for _, a := range all {
		clients = append(clients, a.client())
	}
	strict := func() (string, error) { return "strict: true\n", nil }
	return append(clients,
		configured("codex strict", question, codex("codex", false), strict, "gemini-3-flash"),
		configured("copilot strict", question, copilotOver("chat", "gemini-2.5-pro"), strict, "gemini-2.5-pro"))
}

// throughGateway is an agent whose answers come from the Antigravity gateway.
func throughGateway(a agent) agent {
	a.name += " gateway"
	a.gateway = true
	return a
}

// call is the directive for one tool call.
func call(tool string, arguments map[string]any) string {
	encoded, err := json.Marshal(arguments)
	if err != nil {
		panic("e2e: arguments that are no JSON: " + err.Error())
	}
	return fmt.Sprintf("[[call: %s %s]]", tool, encoded)
}

func oneArgument(tool, argument string) func(string) string {
	return func(value string) string { return call(tool, map[string]any{argument: value}) }
}

func writeSettings(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

func claudeCode(name, model, missing string) agent {
	return agent{
		name: name, install: "claude", library: "@anthropic-ai/claude-code",
		model: model, missing: missing, says: "issue with the selected model (" + missing + ")",
		prepare: func(errand) error { return nil },
		command: func(e errand) invocation {
			return invocation{
				argv: append([]string{"node", cached("claude", "node_modules", "@anthropic-ai", "claude-code", "cli-wrapper.cjs"),
					"-p", e.prompt, "--output-format", "json", "--allowedTools", "Bash", "Read"}, e.mcp.claudeCode()...),
				env: []string{
					"ANTHROPIC_BASE_URL=" + e.base, "ANTHROPIC_API_KEY=" + e.key,
					"ANTHROPIC_MODEL=" + e.model, "ANTHROPIC_DEFAULT_HAIKU_MODEL=gemini-3-flash",
					"CLAUDE_CONFIG_DIR=" + filepath.Join(e.home, ".claude"), "IS_SANDBOX=1",
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
				},
			}
		},
		answer: jsonMember("result"),
		shell:  oneArgument("Bash", "command"), read: oneArgument("Read", "file_path"), look: oneArgument("Read", "file_path"),
	}
}

const codexConfig = `model = %q
model_provider = "perigee"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.perigee]
name = "perigee"
base_url = "%s/v1"
env_key = "PERIGEE_KEY"
wire_api = "responses"
supports_websockets = %v

[features]
plugins = false
apps = false
remote_plugin = false
plugin_sharing = false

[analytics]
enabled = false
`

// codex falls back to HTTP after a few attempts when its sockets fail.
func codex(name string, sockets bool) agent {
	last := func(e errand) string { return filepath.Join(e.home, "last.txt") }
	return agent{
		name: name, install: "codex", library: "@openai/codex", sockets: sockets,
		model: "gemini-2.5-pro", missing: "gemini-2.5-prq", says: "the nearest names are gemini-2.5-pro",
		prepare: func(e errand) error {
			return writeSettings(filepath.Join(e.home, ".codex", "config.toml"), fmt.Sprintf(codexConfig, e.model, e.base, sockets)+e.mcp.codex())
		},
		command: func(e errand) invocation {
			return invocation{
				argv: []string{"node", cached("codex", "node_modules", "@openai", "codex", "bin", "codex.js"),
					"exec", "--skip-git-repo-check", "--color", "never", "-o", last(e), e.prompt},
				env: []string{"CODEX_HOME=" + filepath.Join(e.home, ".codex"), "PERIGEE_KEY=" + e.key},
			}
		},
		answer: func(e errand, _ []byte) (string, error) {
			said, err := os.ReadFile(last(e))
			return string(said), err
		},
		shell: oneArgument("exec_command", "cmd"),
		read:  func(path string) string { return call("exec_command", map[string]any{"cmd": "cat " + path}) },
		look:  oneArgument("view_image", "path"),
	}
}

// copilot asks over a WebSocket, which no other agent does.
func copilot() agent {
	return agent{
		name: "copilot socket", install: "copilot", library: "@github/copilot", sockets: true, blind: true,
		model: "gemini-2.5-pro", missing: "gemini-2.5-prq", says: "Model 'gemini-2.5-prq' not found",
		prepare: func(errand) error { return nil },
		command: func(e errand) invocation {
			return invocation{
				argv: []string{"node", cached("copilot", "node_modules", "@github", "copilot", "npm-loader.js"),
					"-p", e.prompt, "--allow-all-tools", "--silent"},
				env: []string{
					"COPILOT_OFFLINE=true", "COPILOT_MODEL=" + e.model,
					"COPILOT_PROVIDER_BASE_URL=" + e.base + "/v1", "COPILOT_PROVIDER_API_KEY=" + e.key,
					"COPILOT_PROVIDER_WIRE_API=responses", "COPILOT_PROVIDER_TRANSPORT=websockets",
				},
			}
		},
		answer: wholeOutput,
		shell: func(command string) string {
			return call("bash", map[string]any{"command": command, "description": "reads"})
		},
		read: oneArgument("view", "path"),
	}
}

// copilotOver asks over HTTP, in one of the three dialects that it has. Names of Gemini models make
// it send what it sends to no other.
func copilotOver(wire, model string) agent {
	a := copilot()
	a.name, a.model, a.sockets, a.brief = "copilot "+wire+" "+model, model, false, true
	a.command = func(e errand) invocation {
		base := e.base + "/v1"
		env := []string{"COPILOT_OFFLINE=true", "COPILOT_MODEL=" + e.model, "COPILOT_PROVIDER_API_KEY=" + e.key}
		switch wire {
		case "responses":
			env = append(env, "COPILOT_PROVIDER_WIRE_API=responses")
		case "messages":
			env = append(env, "COPILOT_PROVIDER_TYPE=anthropic")
			base = e.base
		}
		return invocation{
			argv: []string{"node", cached("copilot", "node_modules", "@github", "copilot", "npm-loader.js"), "-p", e.prompt, "--allow-all-tools", "--silent"},
			env:  append(env, "COPILOT_PROVIDER_BASE_URL="+base),
		}
	}
	return a
}

// qwen is Qwen Code in the Gemini dialect.
func qwen() agent {
	return agent{
		name: "qwen code", install: "qwen", library: "@qwen-code/qwen-code", blind: true, reads: true,
		model: "gemini-2.5-pro", missing: "gemini-2.5-prq", says: "the nearest names are gemini-2.5-pro",
		prepare: func(errand) error { return nil },
		command: func(e errand) invocation {
			return invocation{
				argv: []string{"node", cached("qwen", "node_modules", "@qwen-code", "qwen-code", "cli.js"), "--auth-type", "gemini", "-m", e.model, "--yolo", "-p", e.prompt},
				env:  []string{"GEMINI_API_KEY=" + e.key, "GOOGLE_GEMINI_BASE_URL=" + e.base},
			}
		},
		answer: wholeOutput,
		shell: func(command string) string {
			return call("run_shell_command", map[string]any{"command": command, "is_background": false})
		},
		read: oneArgument("read_file", "file_path"),
	}
}

// pi speaks the Gemini dialect with Google's older library.
func pi() agent {
	return agent{
		name: "pi", install: "pi", library: "@mariozechner/pi-coding-agent", blind: true,
		model: "gemini-3-flash", missing: "gemini-3-flsh", says: "the nearest names are gemini-3-flash",
		prepare: func(e errand) error {
			return writeSettings(filepath.Join(e.home, ".pi", "agent", "models.json"), fmt.Sprintf(
				`{"providers": {"perigee": {"baseUrl": "%s/v1beta", "api": "google-generative-ai", "apiKey": %q, "models": [{"id": %q}]}}}`, e.base, e.key, e.model))
		},
		command: func(e errand) invocation {
			return invocation{argv: []string{"node", cached("pi", "node_modules", "@mariozechner", "pi-coding-agent", "dist", "cli.js"),
				"--provider", "perigee", "--model", e.model, "-p", e.prompt}}
		},
		answer: wholeOutput,
		shell:  oneArgument("bash", "command"), read: oneArgument("read", "path"),
	}
}

func wholeOutput(_ errand, stdout []byte) (string, error) { return string(stdout), nil }

func geminiCLI() agent {
	return agent{
		name: "gemini cli", install: "gemini", library: "@google/gemini-cli",
		model: "gemini-2.5-pro", missing: "gemini-2.5-prq", says: "the nearest names are gemini-2.5-pro",
		prepare: func(e errand) error {
			return writeSettings(filepath.Join(e.home, ".gemini", "settings.json"),
				`{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false}`+e.mcp.geminiCLI()+`}`)
		},
		command: func(e errand) invocation {
			return invocation{
				argv: []string{"node", cached("gemini", "node_modules", "@google", "gemini-cli", "bundle", "gemini.js"),
					"-m", e.model, "--approval-mode", "yolo", "--output-format", "json", "-p", e.prompt},
				env: []string{"GEMINI_API_KEY=" + e.key, "GOOGLE_GEMINI_BASE_URL=" + e.base,
					"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true"},
			}
		},
		answer: jsonMember("response"),
		shell:  oneArgument("run_shell_command", "command"), read: oneArgument("read_file", "file_path"), look: oneArgument("read_file", "file_path"),
	}
}

// openCodes is one program that speaks all four dialects, each through another provider package
// that is compiled into it.
func openCodes() []agent {
	var agents []agent
	for _, d := range openCodeDialects {
		a := openCode(d.provider, d.path, d.model)
		a.served = true
		agents = append(agents, a)
	}
	return agents
}

var openCodeDialects = []struct{ provider, path, model string }{
	{"openai-compatible", "/v1", "gemini-3-flash"},
	{"openai", "/v1", "gemini-3-flash"},
	{"anthropic", "/v1", "claude-sonnet-4-6"},
	{"google", "/v1beta", "gemini-3-flash"},
}

func openCode(provider, path, model string) agent {
	return agent{
		name: "opencode " + provider, install: "opencode", library: "opencode-linux-x64",
		model: model, missing: model + "x", says: "the nearest names are " + model,
		prepare: func(e errand) error { return writeOpenCode(e, provider, path) },
		command: func(e errand) invocation {
			return invocation{
				argv: []string{cached("opencode", "node_modules", "opencode-linux-x64", "bin", "opencode"), "run", "--auto", "--format", "json"},
				env: []string{
					"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
					"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1", "OPENCODE_PURE=1",
				},
				stdin: e.prompt, // an argument with spaces would be put in quotes, and its own quotes escaped
			}
		},
		answer: openCodeAnswer,
		shell: func(command string) string {
			return call("bash", map[string]any{"command": command, "description": "reads"})
		},
		read: oneArgument("read", "filePath"), look: oneArgument("read", "filePath"),
	}
}

func writeOpenCode(e errand, provider, path string) error {
	settings := object{
		"model": "perigee/" + e.model, "small_model": "perigee/" + e.model,
		"enabled_providers": []string{"perigee"}, "lsp": false, "formatter": false,
		"provider": object{"perigee": openCodeSettings(provider, e.base+path, e.key, e.model)},
	}
	if e.mcp != nil {
		settings["mcp"] = object{"perigee": e.mcp.openCode()}
	}
	encoded, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	return writeSettings(filepath.Join(e.work, "opencode.json"), string(encoded))
}

// openCodeSettings is the entry of a provider.
func openCodeSettings(provider, baseURL, key string, models ...string) object {
	entries := object{}
	for _, model := range models {
		entries[model] = object{
			"attachment": true, "tool_call": true, "modalities": object{"input": []string{"text", "image"}, "output": []string{"text"}},
		}
	}
	return object{"npm": "@ai-sdk/" + provider, "options": object{"baseURL": baseURL, "apiKey": key}, "models": entries}
}

// openCodeAnswer joins the texts among its events, one per line.
func openCodeAnswer(_ errand, stdout []byte) (string, error) {
	var said []string
	for line := range bytes.Lines(stdout) {
		var event struct {
			Type string
			Part struct{ Text string }
		}
		if json.Unmarshal(line, &event) == nil && event.Type == "text" {
			said = append(said, event.Part.Text)
		}
	}
	if said == nil {
		return "", fmt.Errorf("no text among its events: %s", lastBytes(string(stdout), 1500))
	}
	return strings.Join(said, "\n"), nil
}

// jsonMember reads the answer out of the object that an agent prints.
func jsonMember(name string) func(errand, []byte) (string, error) {
	return func(_ errand, stdout []byte) (string, error) {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(stdout, &object); err != nil {
			return "", fmt.Errorf("its output is no JSON: %w: %s", err, lastBytes(string(stdout), 1500))
		}
		var said string
		if err := json.Unmarshal(object[name], &said); err != nil {
			return "", fmt.Errorf("its output has no text in %q: %s", name, lastBytes(string(stdout), 1500))
		}
		return said, nil
	}
}
