package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What perigee's own set-up of clients is tried with.
const (
	byConnect = "connect" // writes the settings, has the client prove it, and restores every byte
	byRun     = "run"     // starts the client with a daemon of its own, and changes no settings
)

// A connection is a client that perigee connect or perigee run sets up.
type connection struct {
	name     string // as in perigee connect NAME
	client   documented
	settings []printedFile // of its user, with an odd layout; empty means connect does not write any
	env      []string      // keeps it from calling home, and from asking
	args     []string      // with which it says hello, asks and ends
}

// knownConnections are the clients that are tried.
func knownConnections() []connection {
	programs := map[string]documented{}
	for _, d := range documentedClients() {
		programs[d.program] = d
	}
	return []connection{
		{"claude-code", programs["claude"], []printedFile{
			{".claude/settings.json", "{ \"cleanupPeriodDays\" :  20,\n\n\t\"env\": {\"MY_VARIABLE\":\"1\"} }"},
		}, []string{"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}, []string{"-p", "hello"}},
		{"codex", programs["codex"], []printedFile{
			{".codex/config.toml", "# mine\nmodel=\"gpt-5\"   # the old one\n\n[features]\nplugins = false\napps = false\nremote_plugin = false\nplugin_sharing = false\n\n[analytics]\nenabled=false # never"},
		}, nil, []string{"exec", "--skip-git-repo-check", "hello"}},
		{"gemini-cli", programs["gemini"], []printedFile{
			{".gemini/settings.json", "{ // mine\n  \"privacy\": {\"usageStatisticsEnabled\":false}\r\n}"}, {".gemini/.env", "# mine\nexport MY_VARIABLE = 'a b' # note\n"},
		}, []string{"GEMINI_CLI_NO_RELAUNCH=true", "GEMINI_CLI_TRUST_WORKSPACE=true"}, []string{"-p", "hello"}},
		{"opencode", programs["opencode"], []printedFile{
			{".config/opencode/opencode.jsonc", "// mine\n{\n\t\"$schema\": \"https://opencode.ai/config.json\",\n\t\"lsp\" : false, // quicker\n\t\"formatter\": false,\n}\n"},
		}, []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1"}, []string{"run", "hello"}},
		{"qwen-code", programs["qwen"], []printedFile{{".qwen/settings.json", "{\n    // mine\n    \"privacy\" : {\"usageStatisticsEnabled\":false},\n    \"$version\": 4\n}\n"}}, // it migrates other versions
			nil, []string{"-p", "hello"}},
		{"copilot-cli", programs["copilot"], nil, nil, []string{"-p", "hello", "--silent"}},
	}
}

// connections are the clients that perigee sets up.
func connections() []client {
	var clients []client
	for _, c := range knownConnections() {
		scenarios := []string{byConnect, byRun}
		if len(c.settings) == 0 {
			scenarios = scenarios[1:]
		}
		clients = append(clients, client{
			name: "set up " + c.name, version: pinnedPackage(c.client.install, c.client.library), install: c.client.install, scenarios: scenarios, together: true,
			run: func(ctx context.Context, s *stage, this client, r *report) {
				for _, scenario := range this.scenarios {
					if scenario == byRun {
						r.add(this, scenario, c.starts(ctx, s))
						continue
					}
					r.add(this, scenario, c.connects(ctx, s))
				}
			},
		})
	}
	return clients
}

// A setUp is a home directory with the settings of the client, and a perigee that belongs to it.
type setUp struct {
	connection
	stage *stage
	home  string
	env   []string
}

func (c connection) prepare(s *stage, suffix string) (*setUp, error) {
	u := &setUp{connection: c, stage: s, home: filepath.Join(s.dir, c.name+suffix)}
	r := instructions{files: c.settings}
	if err := r.write(u.home); err != nil {
		return nil, err
	}
	path, err := c.client.path(u.home)
	if err != nil {
		return nil, err
	}
	// The stage starts daemons with this data directory.
	u.env = append([]string{"HOME=" + u.home, "PATH=" + path, "TMPDIR=" + u.home, "TERM=dumb", "LANG=C.UTF-8", "PERIGEE_KEYRING=off",
		"PERIGEE_DATA_DIR=" + filepath.Join(u.home, "data"), "PERIGEE_LISTEN=127.0.0.1:0"}, c.env...)
	return u, nil
}

// perigee runs a command in the folder of the client.
func (u *setUp) perigee(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.stage.binary, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(u.home, "work"), u.env, 5*time.Second
	endChildren := ownGroup(cmd)
	defer endChildren()
	said, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("perigee %s: %w: %s", strings.Join(args, " "), err, lastBytes(string(said), 2000))
	}
	return string(said), err
}

// unchanged compares the settings with those of the user.
func (u *setUp) unchanged() error {
	for _, f := range u.settings {
		data, err := os.ReadFile(filepath.Join(u.home, f.path))
		if err != nil {
			return err
		}
		if !bytes.Equal(data, []byte(f.text)) {
			return fmt.Errorf("%s is %q, and was %q", f.path, data, f.text)
		}
	}
	return nil
}

// connects writes the settings. The client proves by a call of its own that they work, and undo
// restores what was there.
func (c connection) connects(ctx context.Context, s *stage) error {
	u, err := c.prepare(s, "-connect")
	if err != nil {
		return err
	}
	daemon, err := s.launch(ctx, filepath.Base(u.home), s.binary, "serve", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer daemon.stop()
	model := "gemini-"
	if c.name == "claude-code" {
		model = "claude-" // of its own maker, which the simulator has
	}
	said, err := u.perigee(ctx, "connect", c.name, "--yes")
	if err == nil && !strings.Contains(said, "uses these settings: model "+model) {
		err = fmt.Errorf("perigee connect does not say that it works: %s", lastBytes(said, 2000))
	}
	if err == nil && u.unchanged() == nil {
		err = errors.New("perigee connect has written nothing")
	}
	if err != nil {
		return err
	}
	if _, err := u.perigee(ctx, "connect", c.name, "--undo"); err != nil {
		return err
	}
	return u.restored(daemon.address)
}

// restored checks that the files are as they were, but for lines that the client itself has added
// while it was tested.
func (u *setUp) restored(address string) error {
	for _, f := range u.settings {
		data, err := os.ReadFile(filepath.Join(u.home, f.path))
		if err != nil {
			return err
		}
		rest := string(data)
		for line := range strings.Lines(f.text) {
			_, after, found := strings.Cut(rest, strings.TrimSuffix(line, "\n"))
			if !found {
				return fmt.Errorf("%s is %q, and was %q", f.path, data, f.text)
			}
			rest = after
		}
		if strings.Contains(string(data), address) {
			return fmt.Errorf("%s still has the address of perigee: %q", f.path, data)
		}
	}
	return nil
}

// starts runs the client with a daemon that ends with it. The client must print the simulator's
// answer to "hello".
func (c connection) starts(ctx context.Context, s *stage) error {
	u, err := c.prepare(s, "-run")
	if err != nil {
		return err
	}
	said, err := u.perigee(ctx, append([]string{"run", c.name, "--"}, c.args...)...)
	switch {
	case err != nil:
		return err
	case !simulatedHello.MatchString(said):
		return fmt.Errorf("it does not say what the model said: %s", lastBytes(said, 2000))
	case !strings.Contains(said, "the built-in simulator answers"):
		return fmt.Errorf("perigee run does not say that the simulator answers: %s", lastBytes(said, 2000))
	}
	if err := u.unchanged(); err != nil {
		return err
	}
	if c.name == "gemini-cli" {
		if err := u.geminiSaves(ctx); err != nil {
			return err
		}
	}
	return u.daemonEnds(ctx)
}

// geminiSaves checks that the chat of an earlier run is there in the next one, and that settings
// which Gemini CLI has saved are those of the user: it runs with a private home directory.
func (u *setUp) geminiSaves(ctx context.Context) error {
	said, err := u.perigee(ctx, "run", u.name, "--", "--list-sessions")
	if err == nil && !strings.Contains(said, "Available sessions for this project (1)") {
		err = fmt.Errorf("the chat of the earlier run is not listed: %s", lastBytes(said, 2000))
	}
	if err == nil {
		_, err = u.perigee(ctx, "run", u.name, "--", "mcp", "add", "--scope", "user", "probe", "echo", "hi")
	}
	if err != nil {
		return err
	}
	settings, err := os.ReadFile(filepath.Join(u.home, ".gemini", "settings.json"))
	if err == nil && (!strings.Contains(string(settings), `"probe"`) || !strings.Contains(string(settings), "usageStatisticsEnabled") || strings.Contains(string(settings), "gemini-api-key")) {
		err = fmt.Errorf("the settings of the user are %s", settings)
	}
	return err
}

// daemonEnds waits until the daemon that perigee run has started is gone.
func (u *setUp) daemonEnds(ctx context.Context) error {
	socket := filepath.Join(u.home, "data", "perigee.sock")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("the daemon of perigee run is still there a minute after its client has ended")
}
