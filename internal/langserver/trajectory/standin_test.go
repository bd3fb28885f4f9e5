package trajectory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/simulator"
	"perigee/internal/simulator/standin"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// TestMain is the stand-in of a language server where it is started as "simulate langserver".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	}
	goleak.VerifyTestMain(m)
}

// A serverRig is the stand-in language server as a process, with the simulator as its cloud.
type serverRig struct {
	*lsclient.Client
	t     *testing.T
	dir   string // of conversations
	model string
	kill  func()
}

var announced = regexp.MustCompile(`port at (\d+) for HTTP\b`)

func startServer(t *testing.T, home, settings string) *serverRig {
	t.Helper()
	sim, err := simulator.New(simulator.Options{AnyToken: true})
	if err != nil {
		t.Fatal(err)
	}
	cloud := httptest.NewServer(sim)
	t.Cleanup(cloud.Close)
	if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	account := fmt.Sprintf(`{"token":{"access_token":"ya29.test","token_type":"Bearer","expiry":%q}}`, time.Now().Add(time.Hour).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(home, ".gemini", "jetski-standalone-oauth-token"), []byte(account), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "b7a1c2d3-0000-4000-8000-csrf00000001"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "simulate", "langserver", "--standalone", "--csrf_token", token, "--cloud_code_endpoint", cloud.URL)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), standin.Variable + "=generation=hub " + settings}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, ports := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := announced.FindStringSubmatch(lines.Text()); m != nil {
				port, _ := strconv.Atoi(m[1])
				ports <- port
			}
		}
		_ = cmd.Wait()
	}()
	r := &serverRig{t: t, dir: filepath.Join(home, ".gemini", "antigravity", "conversations"), kill: func() {
		_ = cmd.Process.Kill()
		await.Receive(t, ended, "the end of the stand-in")
	}}
	t.Cleanup(r.kill)
	port := await.Receive(t, ports, "the port of the stand-in")
	r.Client = lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint{HTTP: port, CSRF: perigee.NewSecret(token)})})
	r.ready()
	return r
}

// ready waits until the stand-in knows its models.
func (r *serverRig) ready() {
	r.t.Helper()
	await.Until(r.t, "the stand-in is ready", func() bool { return r.Ready(r.t.Context(), true) == nil })
	models, err := r.Models(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range models {
		if m.ID == "gemini-3-flash" {
			r.model = m.Enum
		}
	}
}

// submit does what a command of the IDE does: it begins a conversation of a workspace and tells its
// ID to the test only.
func (r *serverRig) submit(prompt, workspace string) string {
	r.t.Helper()
	id, err := r.Start(r.t.Context(), lsclient.StartOptions{Workspaces: []string{"file://" + workspace}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(id, prompt)
	return id
}

func (r *serverRig) send(id, prompt string) {
	r.t.Helper()
	if _, err := r.Send(r.t.Context(), id, lsclient.Message{Text: prompt, Model: r.model}); err != nil {
		r.t.Fatal(err)
	}
}

// follow is the text of the turn and how it ended.
func followFound(t *testing.T, m Match, readers []Reader) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	texts := map[int]string{}
	last := 0
	for event, err := range events(ctx, m, readers) {
		if err != nil {
			t.Fatal(err)
		}
		switch event.Kind {
		case KindText:
			texts[event.Step] += event.Text
			last = event.Step
		case KindTextReplaced:
			texts[event.Step] = event.Text
			last = event.Step
		case KindTruncated:
			for step := range texts {
				if step >= event.Step {
					delete(texts, step)
				}
			}
		case KindDone:
			return fmt.Sprint(texts[last], " ", event.Reason)
		}
	}
	t.Fatal("there was no end")
	return ""
}

// A language server lists the conversation and shows its steps.
func TestWithALanguageServer(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := startServer(t, t.TempDir(), "store=pb page=3")
	list := readers(r.Client)
	const prompt = "[[text: Hello there.]]"
	first := r.submit(prompt, "/code/a")
	all := []Source{LanguageServerSource(r.Client)}
	m, err := Find(t.Context(), Query{Prompt: prompt, Workspaces: []string{"/code/a"}, Since: time.Now().Add(-time.Minute), Before: []Summary{{ID: "known"}}}, all, list)
	if err != nil || m.Conversation != first || m.Reader == nil || m.Degraded != nil {
		t.Fatalf("got %+v, %v", m, err)
	}
	if got := followFound(t, m, list); got != "Hello there. done" {
		t.Errorf("got %q", got)
	}

	// The same prompt once more, into the same conversation and into one of another workspace. What
	// was there before is known.
	before := []Summary{{ID: first, Modified: time.Now(), Steps: 4}}
	submitted := time.Now()
	r.submit(prompt, "/code/b")
	r.send(first, prompt)
	m, err = Find(t.Context(), Query{Prompt: prompt + "\n", Workspaces: []string{"/code/a"}, Since: submitted, Before: before}, all, list)
	if err != nil || m.Conversation != first || m.Step < 4 {
		t.Fatalf("got %+v, %v", m, err)
	}
	if got := followFound(t, m, list); got != "Hello there. done" {
		t.Errorf("got %q", got)
	}

	// A second one in the workspace.
	second := r.submit(prompt, "/code/a")
	m, err = Find(t.Context(), Query{Prompt: prompt, Conversation: second, Since: submitted}, nil, list)
	if err != nil || m.Conversation != second {
		t.Fatalf("got %+v, %v", m, err)
	}
	_, err = Find(t.Context(), Query{Prompt: prompt, Workspaces: []string{"/code/a"}, Since: submitted, Before: before, Window: 3 * time.Second}, all, list)
	if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), first) {
		t.Errorf("got %v", err)
	}
	_, err = Find(t.Context(), Query{Prompt: "another", Workspaces: []string{"/code/a"}, Since: submitted, Window: time.Second}, all, list)
	if perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("got %v", err)
	}
}

// The language server is killed in the middle of an answer: the rest of the turn is not in its
// file, and what is there is shown. The next process shows the rest of the conversation.
func TestTheLanguageServerIsKilled(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	home := t.TempDir()
	r := startServer(t, home, "store=db")
	database := Database{Dir: r.dir}
	slow := "[[text: " + strings.Repeat("word ", 200) + "]][[chunks: 200]][[pace: 50ms]]"
	submitted := time.Now()
	id := r.submit(slow, "/code/a")
	m, err := Find(t.Context(), Query{Prompt: slow, Workspaces: []string{"/code/a"}, Since: submitted}, []Source{ConversationFilesSource(r.dir)}, readers(database))
	if err != nil || m.Conversation != id || m.Degraded != nil {
		t.Fatalf("got %+v, %v", m, err)
	}
	m.Reader = r.Client // which shows more
	seen := 0
	for event, err := range events(t.Context(), m, readers(database)) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == KindText {
			seen++
		}
		if seen == 3 {
			break
		}
	}
	r.kill()
	log, err := os.Stat(filepath.Join(r.dir, id+".db-wal"))
	if err != nil || log.Size() == 0 {
		t.Fatalf("the process has left no log: %v", err)
	}
	for _, index := range []string{"left", "gone"} {
		if index == "gone" {
			if err := os.Remove(filepath.Join(r.dir, id+".db-shm")); err != nil {
				t.Fatal(err)
			}
		}
		before := files(t, r.dir)
		l, err := ConversationFilesSource(r.dir).Summaries(t.Context())
		if err != nil || len(l.Conversations) != 1 || l.Conversations[0].Steps < 3 || relate(l.Conversations[0].Workspaces, []string{"/code/a"}) != relationSame {
			t.Errorf("got %+v, %v", l, err)
		}
		steps, err := database.Steps(t.Context(), id, 0)
		if err != nil || len(steps) < 3 {
			t.Errorf("got %d steps, %v", len(steps), err)
		}
		if index == "gone" {
			unchanged(t, r.dir, before)
		} else if after := files(t, r.dir); len(after) != len(before) || after[id+".db"] != before[id+".db"] || after[id+".db-wal"] != before[id+".db-wal"] {
			t.Error("files were written")
		}
	}

	// Another process continues it, and its file is followed.
	r = startServer(t, home, "store=db")
	submitted = time.Now()
	r.send(id, "[[text: Again.]]")
	m, err = Find(t.Context(), Query{Prompt: "[[text: Again.]]", Conversation: id, Since: submitted}, nil, readers(database))
	if err != nil || m.Step == 0 {
		t.Fatalf("got %+v, %v", m, err)
	}
	if got := followFound(t, m, nil); got != "Again. done" {
		t.Errorf("got %q", got)
	}
}

// Without the steps of encrypted files, the only new conversation of the workspace is taken.
func TestEncryptedFiles(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	dir := t.TempDir()
	makeFiles(t, filepath.Join(dir, "new.pb"))
	submitted := time.Now()
	recent := RecentSource(func(context.Context) ([]Summary, error) {
		return []Summary{at("new", submitted, "/code/a"), at("..", submitted)}, nil
	})
	q := Query{Prompt: "hello", Workspaces: []string{"/code/a"}, Since: submitted, Before: []Summary{{ID: "known"}}, Window: time.Second}
	m, err := Find(t.Context(), q, []Source{recent, ConversationFilesSource(dir)}, readers(Database{Dir: dir}))
	if err != nil || m.Conversation != "new" || m.Reader != nil || len(m.Degraded) == 0 {
		t.Fatalf("got %+v, %v", m, err)
	}
	for _, line := range problems(m) {
		if strings.Contains(line, dir) {
			t.Errorf("a path is reported: %s", line)
		}
	}
}
