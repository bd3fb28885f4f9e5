package discover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest/await"
)

// kindVariable makes the test binary a process that looks like a language server.
const kindVariable = "PERIGEE_TEST_DISCOVER"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	case os.Getenv(kindVariable) != "":
		serveKind(os.Getenv(kindVariable))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// serveKind listens as a kind of process, prints its ports, and waits for the end of standard
// input.
func serveKind(kind string) {
	log.SetOutput(io.Discard)
	token := flagValue(os.Args, "csrf_token")
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != lsclient.Service+"Heartbeat":
			http.NotFound(w, r)
		case r.Header.Get("X-Codeium-Csrf-Token") != token:
			http.Error(w, "missing CSRF token", http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"lastExtensionHeartbeat":"2026-03-04T05:06:07Z"}`)
		}
	}
	switch kind {
	case "other token":
		token = "another"
	case "404":
		answer = http.NotFound
	case "page":
		answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>welcome</html>") }
	case "list":
		answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `[]`) }
	case "reset":
		answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		return l
	}
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	secure := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	secure.Config.ErrorLog = log.Default()
	secure.StartTLS()
	ports := [3]int{0, port(secure.Listener), 0}
	if kind != "only TLS" {
		plain := listen()
		ports[0] = port(plain)
		go func() { _ = (&http.Server{Handler: http.HandlerFunc(answer), ErrorLog: log.Default()}).Serve(plain) }()
	}
	lsp := listen() // for another protocol
	ports[2] = port(lsp)
	if kind != "server" { // which is found without an answer from this port
		go func() {
			for {
				conn, err := lsp.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		}()
	}
	fmt.Println(ports[0], ports[1], ports[2])
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A rig has a directory like /proc, with the processes of one test only: those of another test may
// not answer.
type rig struct{ Options }

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{Options{Home: t.TempDir(), Proc: t.TempDir(), Limit: await.Limit}}
}

// add makes a process one of the rig.
func (r *rig) add(t *testing.T, pid int) {
	t.Helper()
	name := strconv.Itoa(pid)
	if err := os.Symlink(filepath.Join("/proc", name), filepath.Join(r.Proc, name)); err != nil {
		t.Fatal(err)
	}
}

type child struct {
	pid         int
	http, https int
	lsp         int
	stop        func()
}

// run starts a process with a command line.
func (r *rig) run(t *testing.T, kind string, args ...string) child {
	t.Helper()
	return r.start(t, &exec.Cmd{Path: os.Args[0], Args: args, Env: append(os.Environ(), kindVariable+"="+kind)})
}

func (r *rig) start(t *testing.T, cmd *exec.Cmd) child {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.add(t, cmd.Process.Pid)
	c := child{pid: cmd.Process.Pid}
	stopped := false
	c.stop = func() {
		if !stopped {
			stopped = true
			_ = stdin.Close()
			_ = await.Result(t, cmd.Wait, "the end of the process")
		}
	}
	t.Cleanup(c.stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &c.http, &c.https, &c.lsp); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return c
}

// found returns the candidate of a process, if there is one.
func (r *rig) found(t *testing.T, pid int) (Candidate, bool) {
	t.Helper()
	candidates, err := Find(t.Context(), r.Options)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates {
		if c.PID == pid {
			return c, true
		}
	}
	return Candidate{}, false
}

const name = "/opt/antigravity/bin/language_server_linux_x64"

func TestFindReadsProcessesAndPorts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.run(t, "server", name, "--enable_lsp", "--csrf_token", "secret-token-1", "--workspace_id", "file_home_u_a", "--app_data_dir=antigravity-ide")
	c, ok := r.found(t, p.pid)
	if !ok || c.Endpoint.HTTP != p.http || c.Endpoint.HTTPS != p.https || c.Endpoint.CSRF.Reveal() != "secret-token-1" {
		t.Errorf("%t, %+v, want %+v", ok, c, p)
	}
	if c.Workspace != "file_home_u_a" {
		t.Errorf("%+v", c)
	}
	if text := fmt.Sprintf("%+v", c); strings.Contains(text, "secret-token") {
		t.Errorf("a token is in %s", text)
	}
	secure := r.run(t, "only TLS", name, "--csrf_token=secret-token-2")
	c, ok = r.found(t, secure.pid)
	if !ok || c.Endpoint.HTTP != 0 || c.Endpoint.HTTPS != secure.https || c.Workspace != "" {
		t.Errorf("%t, %+v, want %+v", ok, c, secure)
	}
	if err := lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(c.Endpoint)}).Heartbeat(t.Context()); err != nil {
		t.Error(err)
	}
}

// A language server that a perigee has started, this one or another, is none of an IDE.
func TestFindLeavesHeadlessOnesOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Home = filepath.Join(r.Home, "langserver", "headless", "home")
	args := []string{name, "--csrf_token", "secret-token-3", "--workspace_id", "file_home_u_headless"}
	headless := r.start(t, &exec.Cmd{Path: os.Args[0], Args: args, Env: append(os.Environ(), kindVariable+"=server", "HOME="+r.Home)})
	if c, ok := r.found(t, headless.pid); ok {
		t.Errorf("%+v", c)
	}
}

func TestFindTakesNothingThatOnlyLooksRight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var rejected []child
	for _, kind := range []string{"other token", "404", "page", "list", "reset"} {
		rejected = append(rejected, r.run(t, kind, name, "--csrf_token", "t"))
	}
	rejected = append(rejected,
		r.run(t, "server", "/opt/bin/my_language_server", "--csrf_token", "t"),
		r.run(t, "server", "/usr/bin/vim", name, "--csrf_token", "t"),
		r.run(t, "server", name, "--enable_lsp"))
	right := r.run(t, "server", name, "--csrf_token", "t")
	candidates, err := Find(t.Context(), r.Options)
	if err != nil {
		t.Fatal(err)
	}
	has := func(pid int) bool {
		return slices.ContainsFunc(candidates, func(c Candidate) bool { return c.PID == pid })
	}
	if !has(right.pid) {
		t.Error("the right one was not found")
	}
	for i, p := range rejected {
		if has(p.pid) {
			t.Errorf("process %d of the list was found", i)
		}
	}
}

func TestFindLeavesOtherUsersAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	binary := filepath.Join("/tmp", "perigee-discover-"+lsclient.NewID())
	// Not written by this process: a test beside this one could start a program, which has the file
	// open for a moment.
	if out, err := exec.CommandContext(t.Context(), "cp", os.Args[0], binary).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(binary) })
	r := newRig(t)
	p := r.start(t, &exec.Cmd{Path: binary, Args: []string{name, "--csrf_token", "t"}, Dir: "/", Env: append(os.Environ(), kindVariable+"=server"),
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}})
	announce(t, r.Home, "", map[string]any{"pid": p.pid, "httpPort": p.http, "csrfToken": "t"})
	if c, ok := r.found(t, p.pid); ok {
		t.Errorf("%+v", c)
	}
}

// announce writes the file of a persistent language server.
func announce(t *testing.T, home, workspace string, values map[string]any) string {
	t.Helper()
	dir := filepath.Join(home, ".gemini", "antigravity", "daemon")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ls_"+hashOf(workspace)+".json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindReadsAnnouncements(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Home = filepath.Join(r.Home, "a [b]*")
	// The command line shows nothing.
	p := r.run(t, "server", "renamed", "--csrf_token", "secret-token-3")
	values := map[string]any{"pid": p.pid, "httpPort": p.http, "httpsPort": p.https, "lspPort": p.lsp, "lsVersion": "1.20.6", "csrfToken": "secret-token-3"}
	announce(t, r.Home, "file_home_u_c", values)
	c, ok := r.found(t, p.pid)
	if !ok || c.Endpoint.HTTP != p.http || c.Endpoint.HTTPS != p.https || c.Version != "1.20.6" {
		t.Fatalf("%t, %+v", ok, c)
	}
	if chosen, err := Choose([]Candidate{{PID: 1, Workspace: "file_x"}, c}, "/home/u/c"); err != nil || chosen.PID != p.pid {
		t.Error(chosen, err)
	}

	// An announcement adds the version to a process that is found anyway.
	both := r.run(t, "server", name, "--csrf_token", "t", "--workspace_id", "file_home_u_d")
	announce(t, r.Home, "file_home_u_d", map[string]any{"pid": both.pid, "httpPort": both.http, "lsVersion": "1.21.6", "csrfToken": "t"})
	if c, ok := r.found(t, both.pid); !ok || c.Version != "1.21.6" || c.Workspace != "file_home_u_d" || c.Endpoint.HTTPS != both.https {
		t.Errorf("%t, %+v", ok, c)
	}
}

func TestFindIgnoresAnnouncementsThatAreWrong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.run(t, "closed LSP", "renamed", "--csrf_token", "t")
	good := map[string]any{"pid": p.pid, "httpPort": p.http, "csrfToken": "t"}
	with := func(key string, value any) map[string]any {
		values := map[string]any{}
		for k, v := range good {
			values[k] = v
		}
		values[key] = value
		return values
	}
	for what, values := range map[string]map[string]any{
		"another process":      with("pid", os.Getpid()),
		"a process that ended": with("pid", 1<<22+1),
		"no process":           with("pid", 0),
		"another token":        with("csrfToken", "other"),
		"another port":         with("httpPort", p.lsp),
		"no port":              with("httpPort", 0),
	} {
		path := announce(t, r.Home, "w", values)
		if candidates, err := Find(t.Context(), r.Options); err != nil || slices.ContainsFunc(candidates, func(c Candidate) bool {
			return c.PID == p.pid || c.Endpoint.HTTP == p.http || c.PID == os.Getpid()
		}) {
			t.Errorf("%s: %+v, %v", what, candidates, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	path := announce(t, r.Home, "w", good)
	if _, ok := r.found(t, p.pid); !ok {
		t.Error("the right one was not found")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if c, ok := r.found(t, p.pid); ok {
		t.Errorf("through a link: %+v", c)
	}
}

// The IDE restarts its language server: ports and token change.
func TestFinderFollowsARestart(t *testing.T) {
	t.Parallel()
	workspace := t.TempDir()
	id := workspaceIDs(workspace)[0]
	r := newRig(t)
	first := r.run(t, "server", name, "--csrf_token", "token-of-the-first", "--workspace_id", id)
	r.run(t, "server", name, "--csrf_token", "token-of-another", "--workspace_id", id+"_below")
	finder := NewFinder(r.Options, workspace)
	client := lsclient.New(lsclient.Options{Endpoint: func(ctx context.Context, stale bool) (lsclient.Endpoint, error) {
		c, err := finder.Current(ctx, stale)
		return c.Endpoint, err
	}})
	if err := client.Heartbeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := finder.Current(t.Context(), false); err != nil || c.PID != first.pid {
		t.Fatalf("%+v, %v", c, err)
	}
	first.stop()
	err := client.Heartbeat(t.Context())
	if err == nil || perigee.AsError(err).Class != perigee.ClassUnavailable || !strings.Contains(err.Error(), "open it in the IDE") {
		t.Errorf("without a language server: %v", err)
	}
	second := r.run(t, "server", name, "--csrf_token", "token-of-the-second", "--workspace_id", id)
	if err := client.Heartbeat(t.Context()); err != nil {
		t.Error(err)
	}
	if c, err := finder.Current(t.Context(), false); err != nil || c.PID != second.pid {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestFindEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run(t, "server", name, "--csrf_token", "t")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, r.Options); perigee.AsError(err).Class != perigee.ClassCanceled {
		t.Error(err)
	}
}

// The stand-in announces itself as the language server does.
func TestFindTheStandIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "simulate", "langserver", "--standalone", "--persistent_mode", "--csrf_token", "secret-token-9", "--https_server_port", "0")
	cmd.Env = []string{"HOME=" + r.Home, "PATH=" + os.Getenv("PATH"), standin.Variable + "=generation=hub version=2.0.1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = await.Result(t, cmd.Wait, "the end of the stand-in") })
	r.add(t, cmd.Process.Pid)
	r.Limit = 0 // a port that listens too early is not waited for
	var c Candidate
	await.Until(t, "the stand-in is found", func() (ok bool) {
		c, ok = r.found(t, cmd.Process.Pid)
		return ok && c.Version != ""
	})
	if c.Version != "2.0.1" || !c.Endpoint.Known() {
		t.Errorf("%+v", c)
	}
}

func TestSocketsOfTheKernel(t *testing.T) {
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0000000000000000 100 0 0 10 0
   2: 0200007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0000000000000000 100 0 0 10 0
   3: 00000000:1F93 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 14 1 0000000000000000 100 0 0 10 0
   4: 00000000000000000000000000000000:1F94 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 15 1
   5: 00000000000000000000000001000000:1F95 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 16 1
   6: 0000000000000000FFFF00000100007F:1F96 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 17 1
   7: broken
`
	var got []string
	for _, s := range parseSockets([]byte(table)) {
		got = append(got, fmt.Sprint(s.port, ":", s.inode))
	}
	if want := []string{"8080:11", "8083:14", "8084:15", "8086:17"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if ports := listening("/proc/self"); !slices.Contains(ports, l.Addr().(*net.TCPAddr).Port) {
		t.Errorf("%v without %s", ports, l.Addr())
	}
}

// TestAnnouncementThatIsNoFile has the process put a pipe, and a link to an endless device, where
// it should have put a file.
func TestAnnouncementThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, device := filepath.Join(dir, "pipe"), filepath.Join(dir, "device")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", device)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, device} {
		if a, ok := readAnnouncement(path); ok {
			t.Errorf("%s: read %+v", path, a)
		}
	}
}
