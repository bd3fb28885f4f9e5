package connect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"perigee/internal/lib/edit"
)

func set(value any, path ...string) edit.Setting { return edit.Setting{Path: path, Value: value} }

// label sets a value that is of no use without other values in its container, and without which the
// client refuses those.
func label(value any, path ...string) edit.Setting {
	return edit.Setting{Path: path, Value: value, Part: edit.Companion}
}

// maintained sets a label that the client itself changes later.
func maintained(value any, path ...string) edit.Setting {
	return edit.Setting{Path: path, Value: value, Part: edit.Maintained}
}

// Clients returns the table of clients.
func Clients() []Client {
	return []Client{
		claudeCode(), codex(), geminiCLI(), openCode(), copilot(), qwenCode(), cline(), continueCLI(), zed(), aider(), vscode(), cursor(),
	}
}

// claudeContext is the variable with the size of the context window of a model that Claude Code
// does not know.
const claudeContext = "CLAUDE_CODE_MAX_CONTEXT_TOKENS"

func claudeVariables(t Target) [][2]string {
	variables := [][2]string{
		{"ANTHROPIC_BASE_URL", t.URL}, {"ANTHROPIC_AUTH_TOKEN", t.key()}, {"ANTHROPIC_MODEL", t.Model},
		{"ANTHROPIC_DEFAULT_OPUS_MODEL", t.Model}, {"ANTHROPIC_DEFAULT_SONNET_MODEL", t.Model}, {"ANTHROPIC_DEFAULT_HAIKU_MODEL", t.Model},
	}
	if t.Context > 0 { // or else Claude Code assumes one for models that it does not know
		variables = append(variables, [2]string{claudeContext, strconv.FormatInt(t.Context, 10)})
	}
	return variables
}

func claudeCode() Client {
	files := func(m Machine, t Target) []File {
		dir, root := m.under("CLAUDE_CONFIG_DIR", ".claude")
		f := File{Path: filepath.Join(dir, "settings.json"), root: root, Format: edit.JSON, Secret: true, URL: edit.Path{"env", "ANTHROPIC_BASE_URL"}}
		for _, v := range claudeVariables(t) {
			f.Set = append(f.Set, set(v[1], "env", v[0]))
		}
		return []File{f}
	}
	return Client{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Install: "npm install -g @anthropic-ai/claude-code", Model: "gemini-3-flash", Cuts: true, Agent: "claude-cli",
		Makers:    []string{"claude-sonnet-*", "claude-opus-*", "claude-*"},
		Variables: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"},
		Projects:  []string{".claude/settings.local.json", ".claude/settings.json"},
		Managed: map[string]string{"darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
			"windows": `C:\Program Files\ClaudeCode\managed-settings.json`, "": "/etc/claude-code/managed-settings.json"},
		Own:   []edit.Path{{"model"}, {"apiKeyHelper"}},
		files: files,
		launch: func(m Machine, t Target) (Launch, error) {
			l := Launch{Unset: []string{"ANTHROPIC_API_KEY"}}
			variables := map[string]string{}
			for _, v := range claudeVariables(t) {
				if v[0] == claudeContext && m.Getenv(v[0]) != "" {
					continue // the user's own value counts
				}
				l.Env = append(l.Env, v[0]+"="+v[1])
				variables[v[0]] = v[1]
			}
			// Variables in settings.json take precedence over the environment, and those of
			// --settings over both.
			tree, err := readTree(files(m, t)[0])
			if err != nil {
				return l, err
			}
			if own, _ := edit.Get(tree, edit.Path{"env"}); own != nil {
				if _, there := edit.Get(tree, edit.Path{"env", claudeContext}); there {
					delete(variables, claudeContext)
				}
				encoded, err := json.Marshal(map[string]any{"env": variables})
				if err != nil {
					return l, err
				}
				l.Files, l.Args = map[string][]byte{"settings.json": encoded}, []string{"--settings", "{dir}/settings.json"}
			}
			return l, nil
		},
		probe:    []string{"-p"},
		probeEnv: []string{"CLAUDE_CODE_MAX_OUTPUT_TOKENS=16", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
	}
}

// codexKey is the variable in which Codex finds the key when perigee starts it.
const codexKey = "PERIGEE_CLIENT_KEY"

func codex() Client {
	provider := func(t Target) []edit.Setting {
		settings := []edit.Setting{
			set(t.Model, "model"), set("perigee", "model_provider"),
			label("perigee", "model_providers", "perigee", "name"), set(t.URL+"/v1", "model_providers", "perigee", "base_url"),
			label("responses", "model_providers", "perigee", "wire_api"),
		}
		if t.Context > 0 { // or else Codex assumes a small one
			settings = append(settings, set(t.Context, "model_context_window"))
		}
		return settings
	}
	return Client{
		Name: "codex", Title: "Codex", Program: "codex", Install: "npm install -g @openai/codex", Model: "gemini-3-flash", Agent: "codex",
		Makers:   []string{"gpt-*"},
		Projects: []string{".codex/config.toml"}, Own: []edit.Path{{"profile"}}, Entries: []edit.Path{{"model_providers", "perigee"}},
		files: func(m Machine, t Target) []File {
			dir, root := m.under("CODEX_HOME", ".codex")
			f := File{Path: filepath.Join(dir, "config.toml"), root: root, Format: edit.TOML, Set: provider(t),
				URL: edit.Path{"model_providers", "perigee", "base_url"}}
			switch {
			case t.Variable != "":
				f.Set = append(f.Set, set(t.Variable, "model_providers", "perigee", "env_key"))
			case !t.Key.IsZero():
				f.Set = append(f.Set, set(t.key(), "model_providers", "perigee", "experimental_bearer_token"))
				f.Secret = true
			}
			return []File{f}
		},
		launch: func(_ Machine, t Target) (Launch, error) {
			l := Launch{Env: []string{codexKey + "=" + t.key()}}
			for _, s := range append(provider(t), set(codexKey, "model_providers", "perigee", "env_key")) {
				value, ok := s.Value.(string)
				if value = strconv.Quote(value); !ok {
					value = fmt.Sprint(s.Value)
				}
				l.Args = append(l.Args, "-c", strings.Join(s.Path, ".")+"="+value)
			}
			return l, nil
		},
		probe: []string{"exec", "--skip-git-repo-check", "--sandbox", "read-only"},
	}
}

func geminiVariables(t Target) [][2]string {
	return [][2]string{{"GOOGLE_GEMINI_BASE_URL", t.URL}, {"GEMINI_API_KEY", t.key()}, {"GEMINI_MODEL", t.Model}}
}

// variableFile returns a file of variables beside a settings file.
func variableFile(dir, root string, variables [][2]string) File {
	f := File{Path: filepath.Join(dir, ".env"), root: root, Format: edit.Dotenv, Secret: true, URL: edit.Path{variables[0][0]}}
	for _, v := range variables {
		f.Set = append(f.Set, set(v[1], v[0]))
	}
	return f
}

// withSettings returns the content of a JSON file, which may not exist, with settings.
func withSettings(path string, settings []edit.Setting) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	edited, _, err := edit.Apply(edit.JSON, data, settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return edited, nil
}

func geminiCLI() Client {
	files := func(m Machine, t Target) []File {
		dir, root := m.under("", ".gemini")
		if home := m.Getenv("GEMINI_CLI_HOME"); filepath.IsAbs(home) {
			dir, root = filepath.Join(home, ".gemini"), home
		}
		return []File{
			variableFile(dir, root, geminiVariables(t)),
			{Path: filepath.Join(dir, "settings.json"), root: root, Format: edit.JSON,
				Set: []edit.Setting{set("gemini-api-key", "security", "auth", "selectedType")}},
		}
	}
	return Client{
		Name: "gemini-cli", Title: "Gemini CLI", Program: "gemini", Install: "npm install -g @google/gemini-cli", Model: "gemini-2.5-pro", Agent: "geminicli",
		Variables: []string{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"},
		Projects:  []string{".gemini/.env", ".env", ".gemini/settings.json"},
		Managed: map[string]string{"darwin": "/Library/Application Support/GeminiCli/settings.json",
			"windows": `C:\ProgramData\gemini-cli\settings.json`, "": "/etc/gemini-cli/settings.json"},
		files: files,
		launch: func(m Machine, t Target) (Launch, error) {
			l := Launch{Env: assignments(geminiVariables(t)), Unset: []string{"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_API_KEY"}}
			settings := files(m, t)[1]
			settings.Set = append(settings.Set, geminiHelpers(t)...)
			err := geminiHome(&l, settings)
			return l, err
		},
		probe:    []string{"-p"},
		probeEnv: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"},
	}
}

// geminiHelpers returns the settings that have Gemini CLI ask its own model for summaries, if
// perigee does not have the one that it would ask for.
func geminiHelpers(t Target) []edit.Setting {
	if t.Answers == nil || t.Answers("gemini-3.5-flash-lite") {
		return nil
	}
	model, _ := json.Marshal(t.Model) // a string always has a JSON form
	var settings []edit.Setting
	for _, name := range []string{"summarizer-default", "summarizer-shell"} {
		alias := edit.Raw(fmt.Sprintf(`{"extends": "base", "modelConfig": {"model": %s, "generateContentConfig": {"maxOutputTokens": 2000}}}`, model))
		settings = append(settings, set(alias, "modelConfigs", "customAliases", name))
	}
	return settings
}

// geminiHome gives Gemini CLI a home directory with settings that the user's settings do not have.
// No variable sets them, and it accepts settings of the machine (GEMINI_CLI_SYSTEM_SETTINGS_PATH)
// only from files and directories of root.
func geminiHome(l *Launch, settings File) error {
	tree, err := readTree(settings)
	if err != nil {
		return err
	}
	if selected, _ := edit.Get(tree, settings.Set[0].Path); len(settings.Set) == 1 && selected == settings.Set[0].Value {
		return nil
	}
	l.Env = append(l.Env, "GEMINI_CLI_HOME={dir}")
	l.manifest.StandIn = &standIn{Name: ".gemini", Path: filepath.Dir(settings.Path), Root: settings.root,
		Except: []string{"settings.json", ".env"}, Dirs: []string{"tmp", "history"}}
	return l.copyOf(settings, ".gemini/settings.json")
}

func assignments(variables [][2]string) []string {
	var env []string
	for _, v := range variables {
		env = append(env, v[0]+"="+v[1])
	}
	return env
}

func openCode() Client {
	settings := func(t Target, key string) []edit.Setting {
		return []edit.Setting{
			set("perigee/"+t.Model, "model"),
			label("perigee", "provider", "perigee", "name"), label("@ai-sdk/google", "provider", "perigee", "npm"),
			set(t.URL+"/v1beta", "provider", "perigee", "options", "baseURL"), set(key, "provider", "perigee", "options", "apiKey"),
			set(t.Model, "provider", "perigee", "models", t.Model, "name"),
		}
	}
	return Client{
		Name: "opencode", Title: "OpenCode", Program: "opencode", Install: "npm install -g opencode-ai", Model: "gemini-3-flash", Agent: "opencode",
		Variables: []string{"OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR"},
		Projects:  []string{"opencode.jsonc", "opencode.json", ".opencode/opencode.json", ".opencode/opencode.jsonc"},
		Entries:   []edit.Path{{"provider", "perigee"}},
		files: func(m Machine, t Target) []File {
			dir, root := m.configDir()
			f := File{Path: filepath.Join(dir, "opencode", "opencode.jsonc"), root: root, Format: edit.JSON, Secret: true,
				URL: edit.Path{"provider", "perigee", "options", "baseURL"}}
			if _, err := os.Lstat(f.Path); err != nil {
				f.Path = filepath.Join(dir, "opencode", "opencode.json")
			}
			key := t.key()
			if t.Variable != "" {
				key, f.Secret = "{env:"+t.Variable+"}", false
			}
			f.Set = settings(t, key)
			return []File{f}
		},
		launch: func(m Machine, t Target) (Launch, error) {
			content, _, err := edit.Apply(edit.JSON, []byte(m.Getenv("OPENCODE_CONFIG_CONTENT")), settings(t, t.key()))
			return Launch{Env: []string{"OPENCODE_CONFIG_CONTENT=" + string(content)}}, err
		},
		probe: []string{"run"},
	}
}

func copilot() Client {
	return Client{
		Name: "copilot-cli", Title: "GitHub Copilot CLI", Program: "copilot", Install: "npm install -g @github/copilot", Model: "gemini-2.5-pro",
		Advice: func(Target) string {
			return "GitHub Copilot CLI has no settings file for this; start it with perigee run copilot-cli"
		},
		launch: func(_ Machine, t Target) (Launch, error) {
			return Launch{
				Env: assignments([][2]string{{"COPILOT_OFFLINE", "true"}, {"COPILOT_MODEL", t.Model},
					{"COPILOT_PROVIDER_BASE_URL", t.URL + "/v1"}, {"COPILOT_PROVIDER_API_KEY", t.key()}}),
				Unset: []string{"COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API", "COPILOT_PROVIDER_TRANSPORT"},
			}, nil
		},
	}
}

// qwenSystem are the settings of the machine for Qwen Code, by system.
var qwenSystem = map[string]string{"darwin": "/Library/Application Support/QwenCode/settings.json",
	"windows": `C:\ProgramData\qwen-code\settings.json`, "": "/etc/qwen-code/settings.json"}

func qwenCode() Client {
	settings := func(t Target) []edit.Setting {
		return []edit.Setting{set("gemini", "security", "auth", "selectedType"), set(t.Model, "model", "name")}
	}
	variables := func(t Target) [][2]string { return geminiVariables(t)[:2] }
	return Client{
		Name: "qwen-code", Title: "Qwen Code", Program: "qwen", Install: "npm install -g @qwen-code/qwen-code", Model: "gemini-2.5-pro",
		Variables: []string{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "GEMINI_MODEL"},
		Projects:  []string{".qwen/.env", ".env", ".qwen/settings.json"},
		Managed:   qwenSystem,
		files: func(m Machine, t Target) []File {
			dir, root := m.under("QWEN_HOME", ".qwen")
			return []File{
				{Path: filepath.Join(dir, "settings.json"), root: root, Format: edit.JSON, Set: settings(t)},
				variableFile(dir, root, variables(t)),
			}
		},
		launch: func(m Machine, t Target) (Launch, error) {
			system, ok := qwenSystem[m.System]
			if !ok {
				system = qwenSystem[""]
			}
			const variable, defaults = "QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
			if own := m.Getenv(variable); own != "" {
				system = own
			}
			content, err := withSettings(system, settings(t))
			l := Launch{
				Env:   append(assignments(geminiVariables(t)), variable+"={dir}/settings.json"),
				Files: map[string][]byte{"settings.json": content},
			}
			if m.Getenv(defaults) == "" { // Qwen Code looks for them beside the settings
				l.Env = append(l.Env, defaults+"="+filepath.Join(filepath.Dir(system), "system-defaults.json"))
			}
			return l, err
		},
		probe: []string{"-p"},
	}
}

func cline() Client {
	files := func(m Machine, t Target) []File {
		dir, root := m.under("CLINE_DIR", ".cline")
		dir = filepath.Join(dir, "data")
		if data := m.Getenv("CLINE_DATA_DIR"); filepath.IsAbs(data) {
			dir, root = data, data
		}
		settings := []string{"providers", "openai-compatible", "settings"}
		at := func(name string) []string { return append(settings[:3:3], name) }
		return []File{{
			Path: filepath.Join(dir, "settings", "providers.json"), root: root, Format: edit.JSON, Secret: true, URL: at("baseUrl"),
			IfMissing: []edit.Setting{ // without these, Cline ignores the file
				maintained(1, "version"), maintained("2026-01-01T00:00:00.000Z", "providers", "openai-compatible", "updatedAt"),
				maintained("manual", "providers", "openai-compatible", "tokenSource"),
			},
			Set: []edit.Setting{
				set("openai-compatible", "lastUsedProvider"), label("openai-compatible", at("provider")...), set(t.URL+"/v1", at("baseUrl")...),
				set(t.key(), at("apiKey")...), set(t.Model, at("model")...),
			},
		}}
	}
	return Client{
		Name: "cline", Title: "Cline", Program: "cline", Install: "npm install -g cline", Model: "gemini-3-flash",
		Variables: []string{"CLINE_PROVIDER_SETTINGS_PATH"},
		Entries:   []edit.Path{{"providers", "openai-compatible"}},
		files:     files,
		launch: func(m Machine, t Target) (Launch, error) {
			l := Launch{Env: []string{"CLINE_PROVIDER_SETTINGS_PATH={dir}/providers.json"}}
			f := files(m, t)[0]
			if own := m.Getenv("CLINE_PROVIDER_SETTINGS_PATH"); filepath.IsAbs(own) {
				f.Path, f.root = own, filepath.Dir(own)
			}
			err := l.copyOf(f, "providers.json")
			return l, err
		},
		probe: []string{"--auto-approve", "false"},
	}
}

func continueCLI() Client {
	files := func(m Machine, t Target) []File {
		dir, root := m.under("CONTINUE_GLOBAL_DIR", ".continue")
		at := func(name string) []string { return []string{"models", "name=perigee", name} }
		return []File{{
			Path: filepath.Join(dir, "config.yaml"), root: root, Format: edit.YAML, Secret: true, URL: at("apiBase"),
			IfMissing: []edit.Setting{label("perigee", "name"), label("1.0.0", "version"), label("v1", "schema")},
			Set: []edit.Setting{
				label("perigee", at("name")...), label("openai", at("provider")...), set(t.Model, at("model")...),
				set(t.URL+"/v1", at("apiBase")...), set(t.key(), at("apiKey")...),
			},
		}}
	}
	return Client{
		Name: "continue", Title: "Continue", Program: "cn", Install: "npm install -g @continuedev/cli", Model: "gemini-3-flash",
		Entries: []edit.Path{{"models", "name=perigee"}},
		files:   files,
		launch: func(m Machine, t Target) (Launch, error) {
			content, err := editedContent(files(m, t)[0])
			return Launch{Args: []string{"--config", "{dir}/config.yaml"}, Files: map[string][]byte{"config.yaml": content}}, err
		},
		probe: []string{"-p"},
	}
}

// zedKey is the variable in which Zed looks for the key of a provider named perigee.
const zedKey = "PERIGEE_API_KEY"

func zed() Client {
	return Client{
		Name: "zed", Title: "Zed", Program: "zed", Install: "see https://zed.dev/download", Model: "gemini-3-flash",
		Projects: []string{".zed/settings.json"},
		Entries:  []edit.Path{{"language_models", "openai_compatible", "perigee"}, {"agent", "default_model"}},
		files: func(m Machine, t Target) []File {
			dir, root := m.configDir()
			name := "zed"
			switch m.System {
			case "darwin":
				dir, root = filepath.Join(m.Home, ".config"), m.Home
			case "windows":
				dir, root = m.appData()
				name = "Zed"
			}
			provider := []string{"language_models", "openai_compatible", "perigee"}
			at := func(name string) []string { return append(provider[:3:3], name) }
			model, _ := json.Marshal(t.Model) // a string always has a JSON form
			models := edit.Raw(fmt.Sprintf(`[{"name": %s, "max_tokens": 1048576, "max_output_tokens": 65536}]`, model))
			return []File{{
				Path: filepath.Join(dir, name, "settings.json"), root: root, Format: edit.JSON, URL: at("api_url"),
				Set: []edit.Setting{
					set(t.URL+"/v1", at("api_url")...), set(models, at("available_models")...),
					set("perigee", "agent", "default_model", "provider"), set(t.Model, "agent", "default_model", "model"),
				},
			}}
		},
		launch: func(_ Machine, t Target) (Launch, error) {
			return Launch{Env: []string{zedKey + "=" + t.key()},
				Warning: "Zed reads its models from its settings only, which perigee connect zed writes; it uses perigee as long as perigee serve is running"}, nil
		},
	}
}

func aider() Client {
	return Client{
		Name: "aider", Title: "Aider", Program: "aider", Install: "python -m pip install aider-install && aider-install", Model: "gemini-3-flash",
		Variables: []string{"AIDER_MODEL", "AIDER_OPENAI_API_BASE", "AIDER_OPENAI_API_KEY"},
		Projects:  []string{".aider.conf.yml", ".env"},
		files: func(m Machine, t Target) []File {
			return []File{{
				Path: filepath.Join(m.Home, ".aider.conf.yml"), root: m.Home, Format: edit.YAML, Secret: true, URL: edit.Path{"openai-api-base"},
				Set: []edit.Setting{set("openai/"+t.Model, "model"), set(t.URL+"/v1", "openai-api-base"), set(t.key(), "openai-api-key")},
			}}
		},
		launch: func(_ Machine, t Target) (Launch, error) {
			return Launch{Env: assignments([][2]string{
				{"AIDER_MODEL", "openai/" + t.Model}, {"AIDER_OPENAI_API_BASE", t.URL + "/v1"}, {"AIDER_OPENAI_API_KEY", t.key()},
				{"OPENAI_API_BASE", t.URL + "/v1"}, {"OPENAI_API_KEY", t.key()},
			})}, nil
		},
		probe: []string{"--no-git", "--yes-always", "--no-check-update", "--no-analytics", "--message"},
	}
}

// extensionURL is the address that the extension for VS Code uses without a setting.
const extensionURL = "http://127.0.0.1:8741"

func vscode() Client {
	const install = "install the extension with code --install-extension bin/perigee.vsix (make extension builds it); " +
		"its models are in the model picker of Chat"
	return Client{
		Name: "vscode", Title: "VS Code", Program: "code", Install: "see https://code.visualstudio.com/download",
		Advice: func(t Target) string {
			if !t.Key.IsZero() {
				return install + "; set the key with the command perigee: Set the Key"
			}
			return install
		},
		files: func(m Machine, t Target) []File {
			if t.URL == extensionURL {
				return nil
			}
			dir, root := m.appData()
			return []File{{
				Path: filepath.Join(dir, "Code", "User", "settings.json"), root: root, Format: edit.JSON,
				Set: []edit.Setting{set(t.URL, "perigee.url")}, URL: edit.Path{"perigee.url"},
			}}
		},
		launch: func(Machine, Target) (Launch, error) {
			return Launch{Warning: "VS Code reaches perigee through its extension (see perigee connect vscode), as long as perigee serve is running"}, nil
		},
	}
}

func cursor() Client {
	return Client{
		Name: "cursor", Title: "Cursor", Install: "see https://cursor.com/downloads", Refused: true,
		Advice: func(Target) string {
			return "Cursor sends requests from its own servers, which cannot reach this machine: it needs a public https address of perigee " +
				"with keys and tls (docs/service.md). Then set it in Cursor Settings, Models: OpenAI API Key, and Override OpenAI Base URL " +
				"with the address and /v1"
		},
	}
}
