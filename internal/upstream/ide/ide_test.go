//go:build linux

package ide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/bridgetest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// The agent is asked through the language server; the extension only tells where that is.
func TestAskThroughTheLanguageServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello"}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("without a window: %v", err)
	}
	workspace := t.TempDir()
	w := r.window(bridgetest.Options{Workspace: []string{workspace}, Ask: unasked(t)}, r.server(workspace))
	var progress []ask.Progress
	answer, err := r.Ask(t.Context(), ask.Request{Prompt: "[[text: one two three]] [[chunks: 3]]", ReadOnly: true}, func(p ask.Progress) { progress = append(progress, p) })
	if err != nil || answer.Status != ask.Done || answer.Text != "one two three" || answer.Source != "ide" || answer.Conversation == "" || answer.Usage == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	if len(progress) == 0 || progress[len(progress)-1].Text != "one two three" {
		t.Errorf("progress %v", progress)
	}
	// The conversation goes on, and is known.
	again := r.must(ask.Done, ask.Request{Prompt: "[[text: four]]", Conversation: answer.Conversation})
	if again.Text != "four" || again.Conversation != answer.Conversation {
		t.Errorf("%+v", again)
	}
	for id, want := range map[string]bool{answer.Conversation: true, "11111111-2222-4333-8444-555555555555": false} {
		if has, err := r.Has(t.Context(), id); has != want || err != nil {
			t.Errorf("%s: %v, %v", id, has, err)
		}
	}
	err = r.fails(perigee.ClassNotFound, ask.Request{Prompt: "hello", Conversation: "11111111-2222-4333-8444-555555555555"})
	if errors.Is(err, ask.ErrDeclined) {
		t.Errorf("an unknown conversation was declined: %v", err)
	}
	await.Until(t, "connections are closed", func() bool { return w.Open() == 0 })
}

// Windows without the extension are found by their language servers.
func TestAskAWindowWithoutTheExtension(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), second); err != nil {
		t.Fatal(err)
	}
	r.server(first)
	if answer := r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]"}); answer.Text != "hello" {
		t.Errorf("%+v", answer)
	}
	r.server("") // of the IDE, not of a window
	r.serverIn(filepath.Join(t.TempDir(), "langserver", "headless", "home"), t.TempDir(), "")
	if answer := r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Workspace: filepath.Join(first, "below")}); answer.Text != "hello" {
		t.Errorf("%+v", answer)
	}
	r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]"})
	r.server(second)
	err := r.fails(perigee.ClassInvalid, ask.Request{Prompt: "hello"})
	if errors.Is(err, ask.ErrDeclined) || !strings.Contains(err.Error(), "several windows of Antigravity are open") {
		t.Errorf("%v", err)
	}
	r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Roots: []string{"file://" + second}})
	r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Workspace: filepath.Join(second, "below")}) // as it was opened: through a link
}

// A headless language server of perigee is no window.
func TestHeadlessLanguageServersAreNoWindows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opts.Home = filepath.Join(t.TempDir(), "langserver", "headless", "home")
	r.serverIn(r.opts.Home, t.TempDir(), "")
	if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello"}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
}

// If the language server has not taken the prompt, the extension is asked.
func TestAskThroughTheExtension(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workspace := t.TempDir()
	w := r.window(bridgetest.Options{Workspace: []string{workspace}, LanguageServerPort: 1, CSRFToken: "old"}, nil)
	answer := r.must(ask.Done, ask.Request{Prompt: "hello", Workspace: workspace})
	if answer.Text != "answer: hello" || answer.Conversation == "" {
		t.Errorf("%+v", answer)
	}
	w.Kill()
	// The announcement stays if another program has got its port, or if the refusal of a connection
	// comes late.
	await.Until(t, "its announcement is removed", func() bool {
		if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello", Workspace: workspace}); !errors.Is(err, ask.ErrDeclined) {
			t.Errorf("after the end of the window: %v", err)
		}
		_, err := os.Stat(w.Path)
		return errors.Is(err, os.ErrNotExist)
	})
}

// Refusals before the prompt was handed over allow another source, and name both ways.
// Without a language server perigee cannot choose the model: a key must allow the agent itself.
func TestTheExtensionObeysTheModelsOfAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workspace := t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{workspace}}, nil)
	allows := func(only string) func(string) bool { return func(model string) bool { return model == only } }
	err := r.fails(perigee.ClassForbidden, ask.Request{Prompt: "hello", Workspace: workspace, AllowsModel: allows("gemini-3-flash")})
	if !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("no other source may be asked: %v", err)
	}
	r.must(ask.Done, ask.Request{Prompt: "hello", Workspace: workspace, AllowsModel: allows(Model)})

	gone := t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{gone}, LanguageServerPort: 1, CSRFToken: "old"}, nil)
	err = r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello", Workspace: gone, AllowsModel: allows("gemini-3-flash")})
	if public := perigee.AsError(err).Public; public == "" || strings.Contains(public, "127.0.0.1") {
		t.Errorf("a client gets %q for %v", public, err)
	}
}

func TestExtensionRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var code atomic.Int64
	code.Store(-32002)
	r.window(bridgetest.Options{LanguageServerPort: 1, CSRFToken: "old", Ask: func(context.Context, *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		return bridgetest.Result{}, &bridgetest.Error{Code: int(code.Load()), Message: "because"}
	}}, nil)
	err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello"})
	if !errors.Is(err, ask.ErrDeclined) || !strings.Contains(err.Error(), "cannot be reached") || !strings.Contains(err.Error(), "through the extension: the editor window has no agent: because") {
		t.Errorf("%v", err)
	}
	code.Store(-32603)
	if answer := r.must(ask.Failed, ask.Request{Prompt: "hello"}); answer.Error == nil || !strings.Contains(answer.Error.Message, "because") {
		t.Errorf("%+v", answer)
	}
}

// Windows of other editors have no agent.
func TestOtherEditors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	editor, workspace := t.TempDir(), t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{editor}, Capabilities: map[string]bool{"fs": true, "ui": true}, Ask: unasked(t)}, nil)
	err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello"})
	if !errors.Is(err, ask.ErrDeclined) || !strings.Contains(err.Error(), editor) {
		t.Errorf("%v", err)
	}
	r.window(bridgetest.Options{Workspace: []string{workspace}}, nil)
	if answer := r.must(ask.Done, ask.Request{Prompt: "hello"}); answer.Text != "answer: hello" {
		t.Errorf("%+v", answer)
	}
	if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello", Workspace: editor}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
}

// The panel cannot promise anything.
func TestPanelRefusesWhatItCannotPromise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	panel := bridgetest.Capabilities()
	panel["follow"] = false
	r.window(bridgetest.Options{Capabilities: panel, Ask: unasked(t), Submit: func(_ context.Context, a *bridgetest.Ask) (any, *bridgetest.Error) {
		t.Errorf("submitted: %q", a.Prompt)
		return nil, nil
	}}, nil)
	if err := r.fails(perigee.ClassUnimplemented, ask.Request{Prompt: "hello", ReadOnly: true}); errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
	r.fails(perigee.ClassUnimplemented, ask.Request{Prompt: "hello", Model: "gemini-3-flash"})
}

// A language server that is killed while its agent answers leaves open what became of the prompt:
// it is not sent again.
func TestLanguageServerKilledDuringAnAsk(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := newRig(t)
	workspace := t.TempDir()
	sup := r.server(workspace)
	r.window(bridgetest.Options{Workspace: []string{workspace}, Ask: unasked(t)}, sup)
	kill := sync.OnceFunc(func() {
		if err := syscall.Kill(sup.Status().PID, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	answer, err := r.Ask(t.Context(), ask.Request{Prompt: "[[tokens: 2000]] [[chunks: 1000]] [[pace: 20ms]]"}, func(p ask.Progress) {
		if p.Text != "" {
			kill()
		}
	})
	if err != nil || answer.Status != ask.Failed || answer.Text == "" || answer.Conversation == "" || answer.Error.Class != perigee.ClassUnavailable {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestWindowKilledDuringAnAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.window(bridgetest.Options{Ask: func(ctx context.Context, a *bridgetest.Ask) (bridgetest.Result, *bridgetest.Error) {
		a.ProgressIn("c1", "so far")
		<-ctx.Done()
		return bridgetest.Result{}, nil
	}}, nil)
	answer, err := r.Ask(t.Context(), ask.Request{Prompt: "hello"}, func(ask.Progress) { w.Kill() })
	if err != nil || answer.Status != ask.Failed || answer.Text != "so far" || answer.Conversation != "c1" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// A window that is stuck is still a window, and does not delay the asks of another one for long.
func TestStuckWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opts.limits.hello = 50 * time.Millisecond
	stuck, workspace := t.TempDir(), t.TempDir()
	first := r.window(bridgetest.Options{Workspace: []string{stuck}}, nil)
	first.Freeze()
	r.window(bridgetest.Options{Workspace: []string{workspace}}, nil)
	if answer := r.must(ask.Done, ask.Request{Prompt: "hello", Workspace: workspace}); answer.Text != "answer: hello" {
		t.Errorf("%+v", answer)
	}
	if err := r.fails(perigee.ClassInvalid, ask.Request{Prompt: "hello"}); !strings.Contains(err.Error(), stuck) {
		t.Errorf("%v", err)
	}
	r.opts.limits.slow = 50 * time.Millisecond
	if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello", Workspace: stuck}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
}

// A language server that is stopped is still that of a window, which is not guessed away.
func TestStuckLanguageServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opts.limits.hello = 50 * time.Millisecond
	first, second := t.TempDir(), t.TempDir()
	r.server(first)
	pid := r.server(second).Status().PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	defer resume()
	r.fails(perigee.ClassInvalid, ask.Request{Prompt: "hello"})
	answer := r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Workspace: first})
	r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Conversation: answer.Conversation})
	r.opts.limits.slow = 50 * time.Millisecond
	if err := r.fails(perigee.ClassUnavailable, ask.Request{Prompt: "hello", Workspace: second}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
	resume()
	r.opts.limits.slow = await.Limit
	r.must(ask.Done, ask.Request{Prompt: "[[text: hello]]", Workspace: second})
}

func TestCancelStopsTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	workspace := t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{workspace}, Ask: unasked(t)}, r.server(workspace))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer, err := r.Ask(ctx, ask.Request{Prompt: "[[tokens: 2000]] [[chunks: 1000]] [[pace: 20ms]]"}, func(p ask.Progress) {
		if p.Text != "" {
			cancel()
		}
	})
	if err != nil || answer.Status != ask.Cancelled || answer.Conversation == "" {
		t.Fatalf("%+v, %v", answer, err)
	}
	// Without a prompt, an ask waits for the end of the turn, which is over.
	if again := r.must(ask.Cancelled, ask.Request{Conversation: answer.Conversation}); again.Conversation != answer.Conversation {
		t.Errorf("%+v", again)
	}
}

// Asks at once in two windows get their own answers.
func TestTwentyAsksAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := t.TempDir(), t.TempDir()
	r.window(bridgetest.Options{Workspace: []string{first}, Ask: unasked(t)}, r.server(first))
	r.window(bridgetest.Options{Workspace: []string{second}}, nil)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			prompt, workspace := fmt.Sprintf("[[text: answer %d]]", i), first
			want := fmt.Sprintf("answer %d", i)
			if i%2 == 1 {
				workspace, want = second, "answer: "+prompt
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			answer, err := r.Ask(ctx, ask.Request{Prompt: prompt, Workspace: workspace}, nil)
			if err != nil || answer.Status != ask.Done || answer.Text != want {
				t.Errorf("%s: %+v, %v", prompt, answer, err)
			}
		})
	}
	await.Return(t, wait.Wait, "all asks")
}

// Not parallel: it counts the open files of the process.
func TestAsksLeaveNothing(t *testing.T) {
	r := newRig(t)
	workspace := t.TempDir()
	w := r.window(bridgetest.Options{Workspace: []string{workspace}, Ask: unasked(t)}, r.server(workspace))
	const count = 20
	asks := func() (files int) {
		t.Helper()
		for i := range count {
			want := fmt.Sprintf("answer %d", i)
			if answer := r.must(ask.Done, ask.Request{Prompt: "[[text: " + want + "]]"}); answer.Text != want {
				t.Fatalf("%d: %+v", i, answer)
			}
		}
		await.Until(t, "connections are closed", func() bool { return w.Open() == 0 })
		r.cloud.CloseClientConnections()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	// The language server keeps connections to the rig, more of them on a busy machine. What an ask
	// leaves is there count times more after each round.
	files := []int{asks()}
	for range 5 {
		files = append(files, asks())
		if files[len(files)-1]-files[len(files)-2] <= count/2 {
			return
		}
	}
	t.Errorf("open files after rounds of %d asks: %d", count, files)
}
