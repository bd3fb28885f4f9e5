package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

func TestMain(m *testing.M) {
	// Under the race detector a process sleeps for a second before it exits, and the scripts run
	// some 400 of them.
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	testscript.Main(ownEnvironment{m}, map[string]func(){"perigee": mainInRoot, "tlsproof": tlsproof})
}

// noOllama is an address at which no server answers: the developer's own is not for tests.
const noOllama = "127.0.0.1:1"

// ownEnvironment runs the tests, but not the programs of scripts, without the variables that name
// the configuration and the data of the developer's own perigee, and in a directory in which names
// of sockets are short enough, and lines of a terminal hold its path.
type ownEnvironment struct{ *testing.M }

func (m ownEnvironment) Run() int {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "PERIGEE_") && !strings.HasPrefix(name, "PERIGEE_TEST_") || strings.HasPrefix(name, "XDG_") {
			_ = os.Unsetenv(name)
		}
	}
	_ = os.Setenv("OLLAMA_HOST", noOllama)
	if runtime.GOOS != "windows" && len(os.TempDir()) > 10 {
		_ = os.Setenv("TMPDIR", "/tmp")
	}
	return m.M.Run()
}

// TestScripts runs the real main by plain-text scripts. Beside testscript's own commands they have
//
//	start NAME ARGS…      runs perigee in the background until it says where it listens; sets $NAME to that URL
//	halt NAME [SIGNAL]    sends SIGTERM (or KILL, or HUP as a terminal that is closed does, or with NONE nothing) and waits;
//	                      stderr is what it said (stop is testscript's own: it ends the script)
//	http METHOD URL [FILE] [HEADER: VALUE]…   makes a request; stdout is the answer, head and body, and $ID the first id in it; "Bearer @FILE" is what a file has
//	signin HOW ARGS…      runs perigee login and plays the person, see login_test.go
//	sameday DURATION      waits for the next UTC day if this one ends before the duration has passed
//	packtraces DIR        makes the traces in a directory one file each, as a busy perigee writes them
//	exits TABLE           runs the commands of a table and compares their exit codes, see exit_test.go
func TestScripts(t *testing.T) {
	// Under nohup, and in some CI runners, SIGHUP is ignored, and children inherit that. A signal
	// that is caught is back at its default in a child.
	if signal.Ignored(syscall.SIGHUP) {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGHUP)
		t.Cleanup(func() { signal.Ignore(syscall.SIGHUP) })
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/etc")
			env.Setenv("XDG_DATA_HOME", env.WorkDir+"/share")
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("PERIGEE_TEST_ROOT", env.WorkDir+"/root")
			env.Setenv("OLLAMA_HOST", noOllama)
			env.Setenv("PERIGEE_KEYRING", "off") // the owner's keyring is not for tests
			env.Values[processes{}] = map[string]*process{}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "namespaces": // a network, mounts and processes of one's own
				return exec.CommandContext(t.Context(), "unshare", "-n", "-m", "-p", "-f", "--mount-proc", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "halt": stop, "http": request, "signin": signin, "sameday": sameDay, "packtraces": packTraces, "exits": checkExits,
		},
	})
}

// packTraces makes every trace in a directory one file.
func packTraces(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: packtraces DIR")
	}
	calls, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "*", "*"))
	ts.Check(err)
	if len(calls) == 0 {
		ts.Fatalf("no traces in %s", args[0])
	}
	for _, dir := range calls {
		ts.Check(perigeetest.PackTrace(dir))
	}
}

type processes struct{}

// A process is a perigee in the background.
type process struct {
	cmd  *exec.Cmd
	said bytes.Buffer // to be read when done is closed
	done chan struct{}
}

// limited ends with the script, or earlier, when a program has run for too long.
func limited(ts *testscript.TestScript) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	ts.Defer(cancel)
	return ctx
}

// sameDay makes what follows happen on one UTC day. Real time: perigee counts by days, and its
// processes have no other clock.
func sameDay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sameday DURATION")
	}
	needed, err := time.ParseDuration(args[0])
	ts.Check(err)
	const day = 24 * time.Hour
	if left := time.Until(time.Now().Truncate(day).Add(day)); left < needed {
		ts.Logf("waiting %v for the next day", left)
		time.Sleep(left)
	}
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME ARGS…")
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{cmd: exec.CommandContext(ctx, "perigee", args[1:]...), done: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = []string{
		"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "XDG_CONFIG_HOME=" + ts.Getenv("XDG_CONFIG_HOME"),
		"XDG_DATA_HOME=" + ts.Getenv("XDG_DATA_HOME"), "PERIGEE_KEYRING=off", "PERIGEE_IDE=" + ts.Getenv("PERIGEE_IDE"), "PERIGEE_LOG=" + ts.Getenv("PERIGEE_LOG"), "PERIGEE_LOG_FORMAT=" + ts.Getenv("PERIGEE_LOG_FORMAT"), "GORACE=" + ts.Getenv("GORACE"),
	}
	for _, name := range append(config.KeyVariables(), "OLLAMA_HOST") {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	if path, err := exec.LookPath("perigee"); err == nil {
		p.cmd.Path = path
	}
	stderr, err := p.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(p.cmd.Start())
	ts.Value(processes{}).(map[string]*process)[args[0]] = p
	ts.Defer(func() {
		cancel()
		await.Receive(ts, p.done, "the end of a killed process")
	})
	listening := make(chan string, 1)
	go func() {
		defer close(p.done)
		defer close(listening)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			fmt.Fprintln(&p.said, lines.Text())
			if i := strings.Index(lines.Text(), "http://127.0.0.1:"); i >= 0 && strings.HasPrefix(lines.Text(), "perigee: ") {
				url, _, _ := strings.Cut(lines.Text()[i:], " ")
				listening <- url
			}
		}
		_ = p.cmd.Wait()
	}()
	url := await.Receive(ts, listening, "perigee to listen")
	if url == "" {
		await.Receive(ts, p.done, "the end of a process that does not listen")
		ts.Fatalf("it did not listen:\n%s", p.said.String())
	}
	ts.Setenv(args[0], url)
}

func stop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: halt NAME [KILL|HUP|NONE]")
	}
	p := ts.Value(processes{}).(map[string]*process)[args[0]]
	sent := syscall.SIGTERM
	if len(args) > 1 {
		sent = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "NONE": 0}[args[1]]
	}
	if sent != 0 {
		ts.Check(p.cmd.Process.Signal(sent))
	}
	await.Receive(ts, p.done, "the end of the process after "+sent.String())
	if code := p.cmd.ProcessState.ExitCode(); sent != syscall.SIGKILL && code != 0 {
		ts.Fatalf("exit code %d:\n%s", code, p.said.String())
	}
	_, err := io.Copy(ts.Stderr(), &p.said)
	ts.Check(err)
}

var firstID = regexp.MustCompile(`"id":"([^"]+)"`)

func request(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: http METHOD URL [FILE] [HEADER: VALUE]…")
	}
	var body io.Reader
	headers := args[2:]
	if len(headers) > 0 && !strings.Contains(headers[0], ":") {
		raw, err := os.ReadFile(ts.MkAbs(headers[0]))
		ts.Check(err)
		body, headers = bytes.NewReader(raw), headers[1:]
	}
	req, err := http.NewRequest(args[0], args[1], body)
	ts.Check(err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		if kind, file, ok := strings.Cut(value, " @"); ok {
			raw, err := os.ReadFile(ts.MkAbs(file))
			ts.Check(err)
			value = kind + " " + string(raw)
		}
		req.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := http.DefaultClient.Do(req)
	if neg {
		if err == nil {
			_ = resp.Body.Close()
			ts.Fatalf("it answered %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintln(ts.Stdout(), resp.Status)
	ts.Check(resp.Header.Write(ts.Stdout()))
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "\n%s\n", answer)
	if found := firstID.FindSubmatch(answer); found != nil {
		ts.Setenv("ID", string(found[1]))
	}
}
