package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What happens to windows of an editor with perigee's extension, by the names that stand in the
// report. A stand-in of the IDE's own extension (vscode/standin) has its commands and its language
// server.
const (
	windowUnits     = "tests without an editor"
	windowListed    = "windows are listed"
	windowModels    = "models in the extension host"
	windowChat      = "an answer in the Chat view"
	windowMCP       = "the MCP server in the editor"
	windowNoBinary  = "without the perigee binary"
	windowNoDaemon  = "without a daemon"
	windowRPC       = "an ask over the language server"
	windowExtension = "an ask through the extension"
	windowPanel     = "an ask through the panel"
	windowTwo       = "the right one of two windows"
	windowKilled    = "the extension host is killed"
)

func editorWindows() []client {
	return []client{{
		name: "vscode extension", version: "code-server " + pinnedPackage(codeServerInstall, "code-server"), install: codeServerInstall, beside: true,
		scenarios: []string{windowUnits, windowListed, windowModels, windowChat, windowMCP, windowNoBinary, windowNoDaemon, windowRPC, windowExtension,
			windowPanel, windowTwo, windowKilled},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
			defer cancel()
			if slices.Contains(c.scenarios, windowUnits) {
				r.add(c, windowUnits, testExtension(ctx, s))
				if len(c.scenarios) == 1 {
					return
				}
			}
			w, err := newWindows(ctx, s)
			if w != nil {
				defer w.close()
			}
			type step struct {
				do      func(context.Context) error
				windows []string // without which it cannot run
			}
			steps := map[string]step{
				windowListed: {w.areListed, windowNames}, windowModels: {w.offerModels, []string{"north"}}, windowChat: {w.chats, []string{"north"}},
				windowMCP: {w.runServer, []string{"north"}}, windowNoBinary: {w.missBinary, []string{"south"}}, windowNoDaemon: {w.missDaemon, []string{"south"}},
				windowRPC: {w.answerByRPC, []string{"north"}}, windowExtension: {w.answerByExtension, []string{"north"}},
				windowPanel: {w.answerByPanel, []string{"west"}}, windowTwo: {w.areToldApart, []string{"north", "south"}},
				windowKilled: {w.surviveKill, []string{"south"}},
			}
			for _, scenario := range c.scenarios {
				step, is := steps[scenario]
				if !is {
					continue
				}
				failure := err
				if failure == nil {
					failure = w.came(step.windows)
				}
				if failure == nil {
					failure = step.do(ctx)
				}
				r.add(c, scenario, failure)
			}
		},
	}}
}

// testExtension runs the tests of the extension under Node.
func testExtension(ctx context.Context, s *stage) error {
	cmd := exec.CommandContext(ctx, "npm", "test", "--silent")
	cmd.Dir = "vscode"
	cmd.Env = append(os.Environ(), "PERIGEE_TEST_BINARY="+s.binary)
	if said, err := cmd.CombinedOutput(); err != nil {
		_, failed, found := strings.Cut(string(said), "\nnot ok ")
		if !found {
			failed = lastBytes(string(said), 3000)
		}
		return fmt.Errorf("npm test: %w: %s", err, failed[:min(len(failed), 3000)])
	}
	return nil
}

// windows are three windows of an IDE, named after their folders: north, south, and west, whose
// language server cannot be found.
type windows struct {
	stage   *stage
	dir     string
	config  string // of perigee mcp, which has the windows as its upstream
	bridges string
	daemon  *process
	editor  *editor
	missing map[string]error // by the names of windows that did not open
	asked   int
}

// A host is an extension host, as the stand-in in it announces it.
type host struct {
	PID, Port, Langserver int
	Folder                string
}

var windowNames = []string{"north", "south", "west"}

func newWindows(ctx context.Context, s *stage) (*windows, error) {
	dir, err := os.MkdirTemp(s.dir, "vscode-")
	if err != nil {
		return nil, err
	}
	w := &windows{stage: s, dir: dir, config: filepath.Join(dir, "perigee.yaml"), bridges: filepath.Join(dir, "bridges")}
	for _, made := range []string{w.bridges, filepath.Join(dir, "hosts"), filepath.Join(dir, "editor"), cached("screenshots")} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			return w, err
		}
	}
	for _, name := range windowNames {
		mode := "open"
		if name == "west" {
			mode = "hidden"
		}
		if err := os.MkdirAll(w.folder(name), 0o700); err != nil {
			return w, err
		}
		for file, content := range map[string]string{".standin.json": fmt.Sprintf(`{"langserver": %q}`, mode), "note.txt": "the note of " + name + "\n"} {
			if err := os.WriteFile(filepath.Join(w.folder(name), file), []byte(content), 0o600); err != nil {
				return w, err
			}
		}
	}
	studio := filepath.Join(dir, "daemon.yaml")
	if err := errors.Join(
		os.WriteFile(w.config, []byte("upstreams: [{name: desk, kind: ide, accept_terms_risk: true}]\nmcp: {ask: [ide]}\n"), 0o600),
		os.WriteFile(studio, fmt.Appendf(nil, "upstreams: [{name: studio, kind: gemini, url: %q, keys: [any]}]\n", s.provider.target), 0o600),
	); err != nil {
		return w, err
	}
	if w.daemon, err = s.launch(ctx, filepath.Base(dir)+"-daemon", s.binary, "serve", "--config", studio, "--listen", "127.0.0.1:0"); err != nil {
		return w, err
	}
	return w, w.open(ctx)
}

func (w *windows) folder(name string) string { return filepath.Join(w.dir, name) }

// open starts the editor with all windows, and waits for their extension hosts. A window that does
// not come fails the scenarios that need it, and no other.
func (w *windows) open(ctx context.Context) (err error) {
	settings := map[string]any{
		"perigee.url": w.daemon.address, "perigee.binary": w.stage.binary, "workbench.startupEditor": "none",
		"telemetry.telemetryLevel": "off", "extensions.autoCheckUpdates": false,
		// It finds ports of every program, and from the twentieth on a notification covers the Chat
		// view.
		"remote.autoForwardPorts": false,
	}
	w.editor, err = newEditor(ctx, filepath.Join(w.dir, "editor"), settings, []string{
		"PERIGEE_BRIDGES=" + w.bridges, "PERIGEE_CONFIG=" + w.config, "STANDIN_PERIGEE=" + w.stage.binary, "STANDIN_CLOUD=" + w.stage.provider.target,
		"STANDIN_DIR=" + filepath.Join(w.dir, "hosts"),
	})
	if err != nil {
		return err
	}
	w.missing = map[string]error{}
	for _, name := range windowNames {
		if _, err := w.editor.do("open", name, map[string]any{"url": w.editor.address + "/?folder=" + w.folder(name)}); err != nil {
			w.missing[name] = err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, name := range w.opened() {
		if _, err := w.editor.do("opened", name, nil); err != nil {
			w.missing[name] = err
		} else if _, err := w.host(ctx, name, 0); err != nil {
			w.missing[name] = err
		}
	}
	return nil
}

// opened returns the names of the windows that came.
func (w *windows) opened() []string {
	return slices.DeleteFunc(slices.Clone(windowNames), func(name string) bool { return w.missing[name] != nil })
}

// came returns why one of these windows did not open.
func (w *windows) came(names []string) error {
	for _, name := range names {
		if err := w.missing[name]; err != nil {
			return fmt.Errorf("window %s did not open: %w", name, err)
		}
	}
	return nil
}

func (w *windows) close() {
	if w.editor != nil {
		w.editor.close()
	}
	if w.daemon != nil {
		w.daemon.stop()
	}
}

// host waits for the extension host of a window, other than one that was there before.
func (w *windows) host(ctx context.Context, name string, before int) (host, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		files, err := filepath.Glob(filepath.Join(w.dir, "hosts", "*.json"))
		if err != nil {
			return host{}, err
		}
		for _, file := range files {
			var h host
			text, err := os.ReadFile(file)
			if err == nil && json.Unmarshal(text, &h) == nil && h.Folder == w.folder(name) && h.PID != before && processRuns(h.PID) {
				return h, nil
			}
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return host{}, fmt.Errorf("no extension host of window %s: %s", name, lastBytes(w.editor.logged(), 500))
		}
	}
}

// in runs an action of the stand-in in the extension host of a window.
func (w *windows) in(ctx context.Context, name, action string, input map[string]any, output any) error {
	h, err := w.host(ctx, name, 0)
	if err != nil {
		return err
	}
	body, err := json.Marshal(input)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/%s", h.Port, action), bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s in window %s: %w: %s", action, name, errors.Join(err, errors.New(response.Status)), lastBytes(string(said), 500))
	}
	if output == nil {
		return nil
	}
	return json.Unmarshal(said, output)
}

// env is that of a perigee that is a client of the windows. Its home is that of the editor, where
// conversations are.
func (w *windows) env() []string {
	return []string{"HOME=" + w.editor.dir, "PATH=" + os.Getenv("PATH"), "PERIGEE_DATA_DIR=" + filepath.Join(w.dir, "mcp-data"), "PERIGEE_KEYRING=off",
		"PERIGEE_BRIDGES=" + w.bridges}
}

// A listedWindow is a row of perigee bridge list.
type listedWindow struct {
	PID       int
	IDE       string
	Workspace []string
	State     string
}

// listed waits until perigee bridge list shows the windows with these names, each of them once and
// ready, and nothing else than windows that came too late.
func (w *windows) listed(ctx context.Context, names ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, w.stage.binary, "bridge", "list", "--json")
		cmd.Env = w.env()
		said, err := cmd.Output()
		var rows []listedWindow
		if err == nil {
			err = json.Unmarshal(said, &rows)
		}
		rows = slices.DeleteFunc(rows, func(row listedWindow) bool {
			return len(row.Workspace) == 1 && w.missing[filepath.Base(row.Workspace[0])] != nil
		})
		fits := err == nil && len(rows) == len(names)
		for _, row := range rows {
			fits = fits && row.State == "ready" && row.IDE != "" && len(row.Workspace) == 1 && slices.Contains(names, filepath.Base(row.Workspace[0]))
		}
		if fits {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("perigee bridge list says %s (%v), want the windows %v", said, err, names)
		}
	}
}

func (w *windows) areListed(ctx context.Context) error {
	if err := w.listed(ctx, windowNames...); err != nil {
		return err
	}
	if _, err := w.editor.do("status", "north", map[string]any{"text": "perigee"}); err != nil {
		return err
	}
	label, err := w.editor.do("item", "north", map[string]any{"text": "models: "})
	if err != nil {
		return err
	}
	if !strings.Contains(label, w.daemon.address) || !strings.Contains(label, "mcp: "+w.stage.binary) {
		return fmt.Errorf("the status bar item says %q, without the address of the daemon and the MCP server", label)
	}
	_, hover := w.editor.do("hover", "north", nil)
	_, shot := w.editor.do("shot", "north", map[string]any{"path": screenshot("vscode-status.png")})
	return errors.Join(hover, shot)
}

const windowModel = "gemini-3-flash"

// offerModels uses a model of perigee as extensions do, through the editor.
func (w *windows) offerModels(ctx context.Context) error {
	var models []struct{ ID, Name string }
	if err := w.in(ctx, "north", "models", nil, &models); err != nil {
		return err
	}
	if !slices.ContainsFunc(models, func(m struct{ ID, Name string }) bool { return m.ID == windowModel && m.Name != "" }) {
		return fmt.Errorf("the editor has the models %v, without %s", models, windowModel)
	}
	token := newToken()
	prompt := fmt.Sprintf(`[[text: looking up now, please wait]] [[chunks: 4]] [[call: lookup {"word":%q}]]`, token)
	var talk struct {
		Texts []string
		Calls []struct {
			Name  string
			Input map[string]string
		}
	}
	if err := w.in(ctx, "north", "converse", map[string]any{"model": windowModel, "prompt": prompt}, &talk); err != nil {
		return err
	}
	reversed := []byte(token)
	slices.Reverse(reversed)
	said := strings.Join(talk.Texts, "")
	if len(talk.Texts) < 5 || !strings.HasPrefix(said, "looking up now, please wait") || !strings.Contains(said, string(reversed)) {
		return fmt.Errorf("the model said %q, not in pieces what the tool answered", talk.Texts)
	}
	if len(talk.Calls) != 1 || talk.Calls[0].Input["word"] != token {
		return fmt.Errorf("the model called %v", talk.Calls)
	}
	var tokens int
	if err := w.in(ctx, "north", "count", map[string]any{"model": windowModel, "text": "one two three"}, &tokens); err != nil || tokens < 1 || tokens > 10 {
		return fmt.Errorf("three words are counted as %d tokens (%w)", tokens, err)
	}
	return w.cancelReaches(ctx)
}

// cancelReaches cancels an answer of two minutes after its first piece: the call must end at
// perigee, too.
func (w *windows) cancelReaches(ctx context.Context) error {
	var canceled struct {
		Pieces int
		Error  string
	}
	input := map[string]any{"model": windowModel, "prompt": "[[tokens: 1200]] [[chunks: 1200]] [[pace: 100ms]]"}
	if err := w.in(ctx, "north", "cancel", input, &canceled); err != nil {
		return err
	}
	if canceled.Pieces < 1 || canceled.Pieces > 200 {
		return fmt.Errorf("after it was canceled, the answer had %d pieces (%s)", canceled.Pieces, canceled.Error)
	}
	return w.eventually(ctx, "the canceled call in perigee's log", func() bool {
		return strings.Contains(w.daemon.said(), `msg="call canceled"`)
	})
}

// eventually waits for a condition.
func (w *windows) eventually(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !holds() {
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("not within a minute: %s", what)
		}
	}
	return nil
}

// chats types into the Chat view. The participant of the stand-in asks the model that is selected
// there: the one of the editor itself would ask for a sign-in at its vendor first.
func (w *windows) chats(context.Context) error {
	token := newToken()
	prompt := fmt.Sprintf(`@standin [[text: Let me look that up.]] [[chunks: 4]] [[pace: 100ms]] [[call: lookup {"word":%q}]]`, token)
	reversed := []byte(token)
	slices.Reverse(reversed)
	_, err := w.editor.do("chat", "north", map[string]any{"prompt": prompt, "answer": string(reversed)})
	if err != nil {
		return err
	}
	_, err = w.editor.do("shot", "north", map[string]any{"path": screenshot("vscode-chat.png")})
	return err
}

// runServer uses a tool of the MCP server that the extension defines in the extension host. The
// editor starts the server with the first request in the Chat view.
func (w *windows) runServer(ctx context.Context) error {
	if err := w.chats(ctx); err != nil {
		return err
	}
	var tool string
	err := w.eventually(ctx, "a tool read_file of perigee in the editor", func() bool {
		var names []string
		if w.in(ctx, "north", "tools", nil, &names) != nil {
			return false
		}
		i := slices.IndexFunc(names, func(name string) bool {
			return strings.Contains(name, "perigee") && strings.HasSuffix(name, "read_file")
		})
		if i >= 0 {
			tool = names[i]
		}
		return i >= 0
	})
	if err != nil {
		return err
	}
	var said []string
	if err := w.in(ctx, "north", "invoke", map[string]any{"name": tool, "input": map[string]any{"path": "note.txt"}}, &said); err != nil {
		return err
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "the note of north") {
		return fmt.Errorf("the tool %s says %q", tool, text)
	}
	return nil
}

// missBinary names a program that does not exist. The user is told, and everything else goes on.
func (w *windows) missBinary(ctx context.Context) error {
	configure := func(value string) error {
		return w.in(ctx, "south", "configure", map[string]any{"key": "perigee.binary", "value": value}, nil)
	}
	if err := configure("/nowhere/perigee"); err != nil {
		return err
	}
	const missing = `the program "/nowhere/perigee" was not found; install perigee, or set perigee.binary to its path`
	_, err := w.editor.do("item", "south", map[string]any{"text": "mcp: " + missing})
	if err == nil {
		err = w.in(ctx, "south", "command", map[string]any{"id": "perigee.copyMcpConfig", "args": []string{"VS Code"}}, nil)
	}
	if err == nil {
		_, err = w.editor.do("notified", "south", map[string]any{"text": missing})
	}
	if err == nil {
		err = w.listed(ctx, w.opened()...)
	}
	return errors.Join(err, configure(w.stage.binary))
}

// missDaemon points the extension at an address where nothing listens: no models, one line in the
// log, and an error that says what to do; then back.
func (w *windows) missDaemon(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	nowhere := fmt.Sprintf("http://127.0.0.1:%d", port)
	configure := func(value string) error {
		return w.in(ctx, "south", "configure", map[string]any{"key": "perigee.url", "value": value}, nil)
	}
	if err := configure(nowhere); err != nil {
		return err
	}
	missing := fmt.Sprintf("perigee is not running at %s; start it with", nowhere)
	_, err = w.editor.do("item", "south", map[string]any{"text": "models: " + missing})
	var models []any
	if err == nil {
		err = w.in(ctx, "south", "models", nil, &models)
	}
	if err == nil && len(models) != 0 {
		err = fmt.Errorf("without a daemon there are %d models", len(models))
	}
	if lines := strings.Count(w.editor.logged(), "no chat models: "+missing); err == nil && (lines < 1 || lines > len(w.opened())) {
		err = fmt.Errorf("%d lines of the log say that perigee is not running", lines)
	}
	err = errors.Join(err, configure(w.daemon.address))
	if err == nil {
		_, err = w.editor.do("item", "south", map[string]any{"text": "models of " + w.daemon.address})
	}
	return err
}

// An asked is the structured result of ask_antigravity.
type asked struct {
	Text, Conversation, Status, Source string
	IsError                            bool `json:"-"`
	Said                               string
}

// mcpServer starts perigee mcp. With hide it cannot see the processes of the editor, so that only
// the extension can reach the language server.
func (w *windows) mcpServer(ctx context.Context, hide bool) (*mcp.ClientSession, error) {
	argv := []string{w.stage.binary, "mcp", "--config", w.config, "--root", w.dir}
	if hide {
		argv = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = w.env(), w.dir
	log, err := os.OpenFile(filepath.Join(w.dir, "mcp.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd.Stderr = log
	return mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
}

// ask calls ask_antigravity in a new process.
func (w *windows) ask(ctx context.Context, hide bool, input map[string]any) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	session, err := w.mcpServer(ctx, hide)
	if err != nil {
		return asked{}, fmt.Errorf("perigee mcp: %w: %s", err, w.mcpLog())
	}
	defer session.Close()
	return askIn(ctx, session, input)
}

func (w *windows) mcpLog() string {
	text, err := os.ReadFile(filepath.Join(w.dir, "mcp.log"))
	if err != nil {
		return err.Error()
	}
	return lastBytes(string(text), 1000)
}

func askIn(ctx context.Context, session *mcp.ClientSession, input map[string]any) (asked, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "ask_antigravity", Arguments: input})
	if err != nil {
		return asked{}, err
	}
	var a asked
	if encoded, err := json.Marshal(result.StructuredContent); err == nil {
		_ = json.Unmarshal(encoded, &a) // errors have none
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			a.Said += text.Text
		}
	}
	a.IsError = result.IsError
	return a, nil
}

// answers asks a window for a word, which must be the answer.
func (w *windows) answers(ctx context.Context, hide bool, name string) (asked, error) {
	w.asked++
	word := fmt.Sprintf("%s answers %d", name, w.asked)
	a, err := w.ask(ctx, hide, map[string]any{"prompt": "[[text: " + word + "]]", "workspace": w.folder(name)})
	switch {
	case err != nil:
		return a, err
	case a.IsError || a.Status != "done" || a.Text != word || a.Source != "ide" || a.Conversation == "":
		return a, fmt.Errorf("asked for %q, window %s answered %+v; %s", word, name, a, w.mcpLog())
	}
	return a, nil
}

func (w *windows) answerByRPC(ctx context.Context) error {
	if err := w.listed(ctx, w.opened()...); err != nil {
		return err
	}
	_, err := w.answers(ctx, false, "north")
	return err
}

func (w *windows) answerByExtension(ctx context.Context) error {
	if os.Getuid() != 0 {
		return nil // a namespace of processes takes root
	}
	a, err := w.answers(ctx, true, "north")
	if err != nil {
		return err
	}
	return w.has(ctx, "north", a.Conversation, true)
}

// answerByPanel asks the window whose language server cannot be found: the prompt goes through the
// panel, and the conversation is found by what is on disk and what the window tells.
func (w *windows) answerByPanel(ctx context.Context) error {
	if _, err := w.answers(ctx, false, "west"); err != nil {
		return err
	}
	var prompts []string
	if err := w.in(ctx, "west", "prompts", nil, &prompts); err != nil {
		return err
	}
	if len(prompts) != 1 || !strings.Contains(prompts[0], "west answers") {
		return fmt.Errorf("the panel got the prompts %q", prompts)
	}
	return nil
}

// has checks whether the language server of a window has a conversation.
func (w *windows) has(ctx context.Context, name, conversation string, want bool) error {
	var diagnostics string
	if err := w.in(ctx, name, "command", map[string]any{"id": "antigravity.getDiagnostics"}, &diagnostics); err != nil {
		return err
	}
	if strings.Contains(diagnostics, conversation) != want {
		return fmt.Errorf("window %s has conversation %s: %v, want %v", name, conversation, !want, want)
	}
	return nil
}

// areToldApart asks two windows, and both without saying which.
func (w *windows) areToldApart(ctx context.Context) error {
	for _, name := range []string{"south", "north"} {
		a, err := w.answers(ctx, false, name)
		if err != nil {
			return err
		}
		for _, other := range []string{"south", "north"} {
			if err := w.has(ctx, other, a.Conversation, other == name); err != nil {
				return err
			}
		}
	}
	a, err := w.ask(ctx, false, map[string]any{"prompt": "[[text: whose?]]", "workspace": filepath.Join(w.dir, "east")})
	if err != nil {
		return err
	}
	if !a.IsError || !strings.Contains(a.Said, "south") || !strings.Contains(a.Said, "north") {
		return fmt.Errorf("asked in a folder without a window: %+v", a)
	}
	return nil
}

// surviveKill kills an extension host while its agent writes: the ask must not claim an answer, and
// the window comes back.
func (w *windows) surviveKill(ctx context.Context) error {
	before, err := w.host(ctx, "south", 0)
	if err != nil {
		return err
	}
	type outcome struct {
		a   asked
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := w.ask(ctx, os.Getuid() == 0, map[string]any{"prompt": "[[tokens: 600]] [[chunks: 600]] [[pace: 100ms]]", "workspace": w.folder("south")})
		done <- outcome{a, err}
	}()
	// The agent has begun when its conversation has been modified after its start.
	var known string
	if err := w.in(ctx, "south", "command", map[string]any{"id": "antigravity.getDiagnostics"}, &known); err != nil {
		return err
	}
	count := strings.Count(known, "googleAgentId")
	err = w.eventually(ctx, "a new conversation in the window", func() bool {
		var now string
		return w.in(ctx, "south", "command", map[string]any{"id": "antigravity.getDiagnostics"}, &now) == nil && strings.Count(now, "googleAgentId") > count
	})
	if err != nil {
		return err
	}
	if err := kill(before.PID); err != nil {
		return err
	}
	select {
	case o := <-done:
		if o.err != nil {
			return fmt.Errorf("the ask ended with %w; %s", o.err, w.mcpLog())
		}
		if o.a.Status == "done" || !o.a.IsError && o.a.Status != "timeout" && o.a.Status != "failed" {
			return fmt.Errorf("the agent was killed, and the ask ended with %+v", o.a)
		}
	case <-ctx.Done():
		return errors.New("the ask did not end")
	}
	if _, err := w.host(ctx, "south", before.PID); err != nil {
		return err
	}
	if err := w.listed(ctx, w.opened()...); err != nil {
		return err
	}
	_, err = w.answers(ctx, false, "south")
	return err
}
