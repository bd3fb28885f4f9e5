//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/terminaltest"
)

// A person types in an interactive bash and presses Tab.
func TestCompletionInBash(t *testing.T) {
	perigeetest.Slow(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"config.yaml": "data_dir: " + dir + "/data\nkeys: [{name: laptop-of-ada, secret: a-secret-of-the-test}]\n" +
			"models: {aliases: {my-model: gemini-3-flash}}\nupstreams:\n" +
			"  - {name: gravity, kind: antigravity, accept_terms_risk: true, oauth: {client_id: an-id, client_secret: of-the-client}}\n",
		"accounts to import.json": `[{"email": "ada@example.com", "refresh_token": "sim-refresh-ada"}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := append(os.Environ(), "TERM=xterm", "PS1=> ", "HOME="+dir, "XDG_CONFIG_HOME="+dir, "PERIGEE_CONFIG="+filepath.Join(dir, "config.yaml"),
		"PERIGEE_KEYRING=off", "HISTFILE=", "INPUTRC=/dev/null")
	add := exec.CommandContext(t.Context(), "perigee", "account", "import", "accounts to import.json")
	add.Dir, add.Env = dir, environment
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	screen := terminaltest.NewScreen(t, 200)
	shell := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-i")
	shell.Dir, shell.Env = dir, environment
	shell.Stdin, shell.Stdout, shell.Stderr = screen.Terminal, screen.Terminal, screen.Terminal
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = await.Result(t, shell.Wait, "the end of the shell")
	})
	screen.Type("bind 'set enable-bracketed-paste off'; source <(perigee completion bash); echo load''ed\n")
	screen.Await("loaded\r\n")
	for _, test := range []struct{ typed, want string }{
		{"perigee comp", "perigee completion "},
		{"perigee config ch", "perigee config check "},
		{"perigee account import --par", "perigee account import --partial "},
		{"perigee account import acc", `perigee account import accounts\ to\ import.json `},
		{"perigee account disable ada", "perigee account disable ada@example.com "},
		{"perigee account use ada@ex", "perigee account use ada@example.com "},
		{"perigee quota --upstream=gr", "perigee quota --upstream=gravity "},
		{"perigee models --upstream=", "perigee models --upstream=gravity "},
		{"perigee quota --upstream gra", "perigee quota --upstream gravity "},
		{"perigee trace list --key la", "perigee trace list --key laptop-of-ada "},
		{"perigee account explain my", "perigee account explain my-model "},
		{"perigee ca install --store s", "perigee ca install --store system "},
		{"perigee run claude", "perigee run claude-code "},
		{"perigee help doc", "perigee help doctor "},
	} {
		screen.Type(test.typed + "\t")
		screen.Await(test.want)
		screen.Type("\x15") // clears the line
	}
}
