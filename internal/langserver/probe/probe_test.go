package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/langserver/probe"
	"perigee/internal/testing/perigeetest/await"
)

// fakeArgument makes the test program a binary to probe: the next argument is what it does, the one
// after that a file in which it notes each run.
const fakeArgument = "fake-binary"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == fakeArgument {
		fake(os.Args[2], os.Args[3], os.Args[4:])
	}
	goleak.VerifyTestMain(m)
}

// fake is the binary. Real time: it is a process of its own.
func fake(mode, notes string, args []string) {
	f, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(f, "%q %q\n", args, os.Environ())
	_ = f.Close()
	flags := flag.NewFlagSet("language_server", flag.ExitOnError)
	stamp := flags.Bool("stamp", false, "print the build")
	flags.Int("lsp_port", 42101, "port with a\n  -trap in its description")
	switch mode {
	case "classic":
		flags.Int("extension_server_port", 0, "port")
		flags.Bool("standalone", false, "stand alone")
	case "hub":
		flags.Bool("standalone", false, "stand alone")
	case "glibc":
		fmt.Fprintln(os.Stderr, "language_server: /lib/libc.so.6: version `GLIBC_2.25' not found (required by language_server)")
		os.Exit(1)
	case "hang":
		time.Sleep(time.Hour) // select {} would end in a deadlock
	case "flood":
		line := strings.Repeat("x", 1<<16) + "\n"
		for range 1000 {
			fmt.Fprint(os.Stderr, line)
		}
		os.Exit(3)
	}
	_ = flags.Parse(args)
	if *stamp {
		fmt.Println(map[string]string{"hub": "2.3.4"}[mode] + map[string]string{"classic": "842159234"}[mode])
	}
	os.Exit(0)
}

func command(t *testing.T, mode string) (argv []string, runs func() []string) {
	notes := filepath.Join(t.TempDir(), "runs")
	return []string{os.Args[0], fakeArgument, mode, notes}, func() []string {
		text, _ := os.ReadFile(notes)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
}

func TestProbeLearnsProfileAndFlags(t *testing.T) {
	for mode, want := range map[string][]string{
		"classic": {"extension_server_port", "lsp_port", "stamp", "standalone"},
		"hub":     {"lsp_port", "stamp", "standalone"},
	} {
		version := map[string]string{"classic": "", "hub": "2.3.4"}[mode] // the stamp of the first is the number of a changelist
		argv, runs := command(t, mode)
		got, err := probeCommand(t.Context(), argv)
		if err != nil {
			t.Fatal(err)
		}
		sum, _ := probe.Hash(os.Args[0])
		if got.Profile != mode || !slices.Equal(got.Flags, want) || got.Version != version || got.SHA256 != sum ||
			!filepath.IsAbs(got.Path) {
			t.Errorf("%s: got %+v", mode, got)
		}
		if got.Supports(probe.Classic) != (mode == "classic") || !got.Supports(probe.Hub) || got.Supports("") {
			t.Errorf("%s: supports other profiles than its flags say", mode)
		}
		if !got.Accepts("lsp_port") || got.Accepts("trap") || got.Accepts("random_port") {
			t.Errorf("%s: accepts what it lists and nothing else: %v", mode, got.Flags)
		}
		if len(runs()) != 2 {
			t.Errorf("%s: %d runs, want one for the flags and one for --stamp: %v", mode, len(runs()), runs())
		}
	}
}

func TestResultIsTheDocumentedJSON(t *testing.T) {
	text, _ := json.Marshal(probe.Result{Path: "/p", SHA256: "ab", Version: "1", Profile: "hub", Flags: []string{"a"}})
	if string(text) != `{"path":"/p","sha256":"ab","version":"1","profile":"hub","flags":["a"]}` {
		t.Errorf("got %s", text)
	}
}

func TestProbeHandsOnNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("PROBE_TEST_SECRET", "do-not-hand-on")
	t.Setenv("HTTPS_PROXY", "http://user:password@proxy.invalid")
	argv, runs := command(t, "hub")
	if _, err := probeCommand(t.Context(), argv); err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir()
	for _, run := range runs() {
		if strings.Contains(run, "do-not-hand-on") || strings.Contains(run, "proxy.invalid") || strings.Contains(run, `"HOME=`+home+`"`) {
			t.Errorf("the environment of the probe has %s", run)
		}
	}
}

func TestProbeSaysWhatTheFileIsNot(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(dir, "loader")
	if err := os.WriteFile(loader, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	other, _ := command(t, "other")
	glibc, _ := command(t, "glibc")
	flood, _ := command(t, "flood")
	cases := []struct {
		command []string
		want    string
	}{
		{nil, "set binary"},
		{[]string{filepath.Join(dir, "absent")}, "there is no language server at"},
		{[]string{dir}, "is not a file"},
		{other, "is not a language server: it has neither the flag extension_server_port nor standalone (exit status 2"},
		{glibc, "needs a newer glibc"},
		{flood, "is not a language server"},
	}
	if runtime.GOOS != "windows" {
		cases = append(cases, []struct {
			command []string
			want    string
		}{
			{[]string{plain}, "is not executable"},
			{[]string{text}, "is not a language server for this system"},
			{[]string{loader}, "interpreter is missing"},
		}...)
	}
	for _, c := range cases {
		_, err := probeCommand(t.Context(), c.command)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.command, err, c.want)
		}
	}
}

func TestProbeEndsWithItsContext(t *testing.T) {
	argv, runs := command(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	probed := make(chan error, 1)
	go func() {
		_, err := probeCommand(ctx, argv)
		probed <- err
	}()
	await.Until(t, "the program runs", func() bool { return len(runs()) > 0 && runs()[0] != "" })
	cancel()
	if err := await.Receive(t, probed, "the end of the probe"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestProbeGivesUpOnAProgramThatKeepsRunning(t *testing.T) {
	probe.SetTimeout(t, 300*time.Millisecond)
	argv, _ := command(t, "hang")
	if _, err := probeCommand(t.Context(), argv); err == nil || !strings.Contains(err.Error(), "did not end within") {
		t.Errorf("got %v", err)
	}
}

func TestResultsAreCachedByContent(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "langserver", "probe")
	argv, runs := command(t, "classic")
	first, err := probe.Options{Command: argv, Cache: cache}.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := probe.Options{Command: argv, Cache: cache}.Probe(t.Context())
	if err != nil || second.Profile != first.Profile || !slices.Equal(second.Flags, first.Flags) || second.Version != first.Version {
		t.Errorf("got %+v, %v; want %+v", second, err, first)
	}
	if len(runs()) != 2 {
		t.Errorf("%d runs, want 2: %v", len(runs()), runs())
	}
	files, _ := os.ReadDir(cache)
	if len(files) != 1 {
		t.Fatalf("the cache has %v", files)
	}
	if info, _ := files[0].Info(); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}

	// The same program with other content.
	copied := copyProgram(t, argv[0], []byte("another build"))
	argv[0] = copied
	changed, err := probe.Options{Command: argv, Cache: cache}.Probe(t.Context())
	if err != nil || changed.SHA256 == first.SHA256 || len(runs()) != 4 {
		t.Errorf("got %+v, %v after %d runs", changed, err, len(runs()))
	}

	// A damaged entry.
	if err := os.WriteFile(filepath.Join(cache, files[0].Name()), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	argv[0] = os.Args[0]
	if _, err := (probe.Options{Command: argv, Cache: cache}).Probe(t.Context()); err != nil || len(runs()) != 6 {
		t.Errorf("got %v after %d runs", err, len(runs()))
	}
}

// copyProgram copies a program into a directory of its own, with more bytes at its end.
func copyProgram(t *testing.T, from string, more []byte) string {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.WriteFile(path, append(text, more...), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionComesFromTheProductThenTheSettingThenTheStamp(t *testing.T) {
	argv, _ := command(t, "hub")
	root := t.TempDir()
	bin := filepath.Join(root, "resources", "app", "extensions", "antigravity", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(bin, "language_server_linux_x64")
	if err := os.Rename(copyProgram(t, argv[0], nil), path); err != nil {
		t.Fatal(err)
	}
	argv[0] = path
	version := func(setting string) string {
		t.Helper()
		r, err := probe.Options{Command: argv, Version: setting, Cache: filepath.Join(root, "cache")}.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	if got := version(""); got != "2.3.4" {
		t.Errorf("by stamp: got %q", got)
	}
	if got := version("1.20.6"); got != "1.20.6" {
		t.Errorf("by setting: got %q", got)
	}
	product := filepath.Join(root, "resources", "app", "product.json")
	if err := os.WriteFile(product, []byte(`{"version":"1.107.0","ideVersion":"1.21.6"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := version("1.20.6"); got != "1.21.6" {
		t.Errorf("by product.json: got %q", got)
	}
}

// probeCommand runs a binary to learn its flags.
func probeCommand(ctx context.Context, command []string) (probe.Result, error) {
	return probe.Options{Command: command}.Probe(ctx)
}
