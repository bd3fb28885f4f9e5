package supervisor

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	"perigee/internal/langserver/probe"
)

// allFlags are the flags that any known binary has.
var allFlags = []string{
	"api_server_url", "app_data_dir", "cloud_code_endpoint", "csrf_token", "enable_lsp", "exit_on_stdin_close",
	"extension_server_csrf_token", "extension_server_port", "http_server_port", "https_server_port", "lsp_port", "override_ide_name",
	"override_ide_version", "override_user_agent_name", "parent_pipe_path", "persistent_mode", "random_port", "server_port",
	"standalone", "stdin_initial_metadata", "subclient_type", "workspace_id",
}

func TestCommandLineHasOnlyFlagsOfTheBinary(t *testing.T) {
	s := New(Options{
		Workspace: "/w", CloudEndpoint: "http://127.0.0.1:1", Extension: Extension{Port: 7, CSRF: perigee.NewSecret("x")},
	})
	given := 0
	rapid.Check(t, func(t *rapid.T) {
		has := rapid.SliceOfNDistinct(rapid.SampledFrom(allFlags), 0, len(allFlags), rapid.ID).Draw(t, "flags")
		slices.Sort(has)
		binary := probe.Result{Profile: rapid.SampledFrom([]string{probe.Classic, probe.Hub}).Draw(t, "profile"), Flags: has, Version: "1"}
		args := s.arguments(binary, launch{csrf: perigee.NewSecret("token")})
		for _, arg := range args {
			if name, ok := strings.CutPrefix(arg, "--"); ok {
				given++
				if !slices.Contains(has, name) {
					t.Errorf("%s is not among %v", arg, has)
				}
			}
		}
		if slices.Contains(has, "csrf_token") && !slices.Contains(args, "token") {
			t.Errorf("%v has no token", args)
		}
		if slices.Contains(args, "--persistent_mode") {
			t.Error("the process would outlive perigee")
		}
	})
	if given == 0 {
		t.Error("no flag was given")
	}
}

func TestPortFlagsOfEachGeneration(t *testing.T) {
	s := New(Options{})
	old := s.arguments(probe.Result{Profile: probe.Classic, Flags: []string{"lsp_port", "random_port", "server_port"}}, launch{})
	if !slices.Equal(old, []string{"--random_port"}) {
		t.Errorf("got %q", old)
	}
	recent := s.arguments(probe.Result{Profile: probe.Classic, Flags: []string{"http_server_port", "https_server_port", "lsp_port"}}, launch{})
	if !slices.Equal(recent, []string{"--https_server_port", "0", "--http_server_port", "0", "--lsp_port", "0"}) {
		t.Errorf("got %q", recent)
	}
}

func TestMetadata(t *testing.T) {
	got := hex.EncodeToString(metadata(probe.Result{Path: "/usr/bin/language_server", Version: "1.21.6"}))
	if got != "0a0b616e7469677261766974793a06312e32312e36620b616e746967726176697479" {
		t.Errorf("got %s", got)
	}
	var m codeiumcommonpb.Metadata
	text := metadata(probe.Result{Path: "/opt/antigravity/resources/app/extensions/antigravity/bin/language_server_linux_x64"})
	if err := proto.Unmarshal(text, &m); err != nil || m.IdeVersion != "" || m.IdeName != "antigravity" ||
		m.ExtensionPath != "/opt/antigravity/resources/app/extensions/antigravity" {
		t.Errorf("got %v, %v", &m, err)
	}
}

func TestEnvironmentOfTheConfigurationWins(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://of.the.user")
	t.Setenv("LANG", "de_DE.UTF-8")
	s := New(Options{
		Home: "/h", Variables: map[string]string{"HTTPS_PROXY": "http://127.0.0.1:1", "SSL_CERT_FILE": "/bundle"},
		Env: map[string]string{"LANG": "C", "NO_PROXY": "internal.example", "SSL_CERT_FILE": "/other"},
	})
	env := s.environment(launch{temp: &tempDir{path: "/h/tmp/1"}, dir: "/w"})
	for _, want := range []string{
		"HOME=/h", "TMPDIR=/h/tmp/1", "PWD=/w", "LANG=C", "HTTPS_PROXY=http://127.0.0.1:1", "SSL_CERT_FILE=/other",
		"NO_PROXY=127.0.0.1,::1,internal.example,localhost", "no_proxy=127.0.0.1,::1,internal.example,localhost",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not among %q", want, env)
		}
	}
}

func TestDiscoveryFileOfThisProcessOnly(t *testing.T) {
	home := t.TempDir()
	s := New(Options{Home: home, Workspace: "/w"})
	dir := filepath.Join(home, ".gemini", "perigee", "daemon")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		// The first 16 digits of the SHA-256 of "file_w".
		if err := os.WriteFile(filepath.Join(dir, "ls_959af28ed70b0c45.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.announced(42); ok {
		t.Error("found without a file")
	}
	for _, text := range []string{"{", `{"pid":41,"httpPort":1}`, `{"pid":42}`} {
		if write(text); func() bool { _, ok := s.announced(42); return ok }() {
			t.Errorf("found in %s", text)
		}
	}
	write(`{"pid":42,"httpsPort":2,"httpPort":1,"lspPort":3,"csrfToken":"c"}`)
	if e, ok := s.announced(42); !ok || e.HTTP != 1 || e.HTTPS != 2 || e.CSRF.Reveal() != "c" {
		t.Errorf("got %+v, %t", e, ok)
	}
}
