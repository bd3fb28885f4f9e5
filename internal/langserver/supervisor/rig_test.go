//go:build unix

package supervisor

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/probe"
	"perigee/internal/lib/procgroup"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest/await"
)

const (
	fakeArgument       = "fake-langserver"      // makes the test program a language server; then come its behaviour and a file for notes
	supervisorArgument = "fake-supervisor"      // makes it a program that supervises one; then come the same, and a directory
	userVariable       = "LANGSERVER_TEST_USER" // the user whose process a fake supervisor runs
	mark               = "LANGSERVER_TEST_OF"   // in the environment of all processes of a test run
	patience           = time.Minute
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 {
		switch os.Args[1] {
		case fakeArgument:
			fakeServer(os.Args[2], os.Args[3], os.Args[4:])
		case supervisorArgument:
			fakeSupervisor(os.Args[2], os.Args[3], os.Args[4])
		case "simulate":
			runStandIn(os.Args[3:])
		}
	}
	_ = os.Setenv(mark, strconv.Itoa(os.Getpid()))
	code := m.Run()
	if left := leftBehind(); left != "" {
		fmt.Fprintf(os.Stderr, "processes left behind: %s\n", left)
		code = 1
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// leftBehind lists the processes of this test run.
func leftBehind() string {
	var left []string
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		pid := strings.Split(path, "/")[2]
		if strings.Contains("\x00"+string(text), "\x00"+mark+"="+strconv.Itoa(os.Getpid())+"\x00") {
			line, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			left = append(left, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return strings.Join(left, "; ")
}

// A run is what a fake language server notes when it starts.
type run struct {
	PID   int
	Args  []string
	Env   []string
	Dir   string
	Input string // hexadecimal
	Mode  string // of a file that it made
}

func note(path string, r run) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	text, _ := json.Marshal(r)
	_, _ = f.Write(append(text, '\n'))
	_ = f.Close()
}

// noteEnding notes, in a file of its own, what a stubborn process was asked to end by.
func noteEnding(notes, what string) {
	f, err := os.OpenFile(notes+".endings", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = f.WriteString(what + "\n")
	_ = f.Close()
}

// endings reads what noteEnding has noted.
func endings(notes string) []string {
	text, _ := os.ReadFile(notes + ".endings")
	return strings.Fields(string(text))
}

// runs reads the notes.
func runs(t *testing.T, path string) []run {
	t.Helper()
	text, _ := os.ReadFile(path)
	var all []run
	for line := range strings.Lines(string(text)) {
		var r run
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

var classicFlags = []string{
	"app_data_dir", "cloud_code_endpoint", "csrf_token", "enable_lsp", "extension_server_csrf_token", "extension_server_port",
	"parent_pipe_path", "random_port", "workspace_id",
}

// fakeServer behaves like a language server, except for what the behaviour says. Real time: it is a
// process of its own.
func fakeServer(behaviour, notes string, args []string) {
	does := func(what string) bool { return strings.Contains(behaviour, what) }
	flags := flag.NewFlagSet("language_server", flag.ExitOnError)
	values := map[string]*string{}
	for _, name := range append([]string{"override_ide_version", "https_server_port", "lsp_port"}, classicFlags...) {
		switch name {
		case "enable_lsp", "random_port":
			flags.Bool(name, false, "")
		default:
			values[name] = flags.String(name, "", "")
		}
	}
	flags.Bool("standalone", false, "")
	flags.Bool("exit_on_stdin_close", false, "")
	_ = flags.Parse(args)

	r := run{PID: os.Getpid(), Args: args, Env: os.Environ()}
	r.Dir, _ = os.Getwd()
	if !does("lifeline") {
		input, _ := io.ReadAll(os.Stdin)
		r.Input = hex.EncodeToString(input)
	}
	made := filepath.Join(os.Getenv("TMPDIR"), "made")
	if err := os.WriteFile(made, nil, 0o666); err == nil {
		info, _ := os.Stat(made)
		r.Mode = info.Mode().String()
	}
	if does("stubborn") {
		signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		go func() {
			for range terminated {
				noteEnding(notes, "SIGTERM")
			}
		}()
	}
	var children []*exec.Cmd
	if does("children") {
		for _, attr := range []*syscall.SysProcAttr{{}, {Setsid: true}} {
			c := exec.CommandContext(context.Background(), "sleep", "1000")
			c.SysProcAttr = attr
			if err := c.Start(); err != nil {
				panic(err)
			}
			children = append(children, c)
		}
	}
	note(notes, r)
	if does("dies") {
		fmt.Fprintln(os.Stderr, "panic: token "+*values["csrf_token"]+" is no good")
		os.Exit(1)
	}
	if does("flood") {
		line := strings.Repeat("noise ", 2000) + "\n"
		for range 4000 {
			_, _ = io.WriteString(os.Stderr, line)
		}
	}
	if does("silent") {
		time.Sleep(time.Hour)
	}
	if path := *values["parent_pipe_path"]; path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			panic(err)
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			if !does("stubborn") {
				os.Exit(0)
			}
		}()
	}
	if does("lifeline") {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			if !does("stubborn") {
				os.Exit(0)
			}
		}()
	}
	serveFake(does, notes, *values["csrf_token"])
	runtime.KeepAlive(children)
}

// serveFake answers until the process is ended.
func serveFake(does func(string) bool, notes, csrf string) {
	var eaten [][]byte
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	handle := func(path string, f func(http.ResponseWriter)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Codeium-Csrf-Token") != csrf {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			f(w)
		})
	}
	handle("/ready", func(w http.ResponseWriter) {
		if does("unready") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	handle("/exit", func(http.ResponseWriter) {
		if !does("stubborn") {
			os.Exit(0)
		}
		noteEnding(notes, "exit")
	})
	handle("/eat", func(http.ResponseWriter) {
		b := make([]byte, 200<<20)
		for i := range b {
			b[i] = 1
		}
		eaten = append(eaten, b)
	})
	handle("/crash", func(http.ResponseWriter) {
		fmt.Fprintln(os.Stderr, "fatal error: all is lost")
		os.Exit(7)
	})
	fmt.Fprintf(os.Stderr, "I1116 server.go:1] Language server listening on random port at %d for HTTP\n",
		listener.Addr().(*net.TCPAddr).Port)
	_ = http.Serve(listener, mux)
	runtime.KeepAlive(eaten)
}

// ask calls a fake language server.
func ask(ctx context.Context, e Endpoint, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", e.HTTP, path), nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Codeium-Csrf-Token", e.CSRF.Reveal())
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// fakeOptions are the options for a fake language server.
func fakeOptions(behaviour, notes, dir string) Options {
	hash, _ := probe.Hash(os.Args[0])
	return Options{
		Name:          "headless",
		Command:       []string{os.Args[0], fakeArgument, behaviour, notes},
		Probe:         probe.Result{Path: os.Args[0], SHA256: hash, Version: "1.21.6", Profile: probe.Classic, Flags: classicFlags},
		Home:          filepath.Join(dir, "home"),
		Extension:     Extension{Port: 4711, CSRF: perigee.NewSecret("extension-token")},
		CloudEndpoint: "http://127.0.0.1:50999",
		Env:           map[string]string{mark: os.Getenv(mark)},
		StartTimeout:  patience,
		RestartPause:  time.Millisecond,
		Ready:         func(ctx context.Context, e Endpoint) error { return ask(ctx, e, "/ready") },
		Heartbeat:     func(ctx context.Context, e Endpoint) error { return ask(ctx, e, "/ready") },
		Exit:          func(ctx context.Context, e Endpoint) error { return ask(ctx, e, "/exit") },
	}
}

// fakeSupervisor supervises a fake language server until it is killed itself. Real time: it is a
// process of its own.
func fakeSupervisor(behaviour, notes, dir string) {
	o := fakeOptions(behaviour, notes, dir)
	if name := os.Getenv(userVariable); name != "" {
		u, err := procgroup.Lookup(name)
		if err == nil {
			err = u.Check(context.Background())
		}
		if err != nil {
			panic(err)
		}
		o.User, o.LockDir, o.Home = u, filepath.Join(dir, "locks"), filepath.Join(dir, "home", "perigee")
	}
	s := New(o)
	if err := s.Start(context.Background()); err != nil {
		panic(err)
	}
	if _, err := s.Wait(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println("ready", s.Status().PID)
	if o.User != nil {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Stop(context.Background())
		os.Exit(0)
	}
	time.Sleep(time.Hour) // select {} would end in a deadlock
}

// A rig is a supervisor of a fake language server, which is stopped at the end of the test.
type rig struct {
	*Supervisor
	notes string
	log   *logBuffer
}

func newRig(t *testing.T, behaviour string, change func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{notes: filepath.Join(dir, "notes"), log: &logBuffer{}}
	o := fakeOptions(behaviour, r.notes, dir)
	o.Logger = debugLog(r.log)
	if change != nil {
		change(&o)
	}
	r.run(t, o)
	return r
}

func debugLog(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// run starts the supervisor, and stops it at the end of the test.
func (r *rig) run(t *testing.T, o Options) {
	t.Helper()
	if o.delays == (delays{}) {
		o.delays = delays{exit: patience, term: patience} // an exit takes a while on a busy machine
		if strings.Contains(strings.Join(o.Command, " "), "stubborn") || strings.Contains(o.Env[standin.Variable], "ignore-exit") {
			o.delays.exit, o.delays.term = time.Millisecond, time.Millisecond
		}
	}
	r.Supervisor = New(o)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Stop(context.Background())
		if state := r.State(); state != Stopped {
			t.Errorf("state %s after Stop", state)
		}
		for _, ran := range runs(t, r.notes) {
			if groupAlive(ran.PID) {
				t.Errorf("group %d is left", ran.PID)
			}
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
}

// ready waits until the process is ready.
func (r *rig) ready(t *testing.T) Endpoint {
	t.Helper()
	e, err := r.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// killedSupervisor starts a program that supervises a fake language server in a directory, kills
// the program, and returns the number of the language server.
func killedSupervisor(t *testing.T, behaviour, dir string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], supervisorArgument, behaviour, filepath.Join(dir, "notes"), dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscanf(line, "ready %d", &pid); err != nil || !groupAlive(pid) {
		t.Errorf("the program says %q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = await.Result(t, cmd.Wait, "the end of the program")
	return pid
}
