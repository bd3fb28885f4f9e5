package headless

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/supervisor"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// An attached upstream finds the language server of its workspace, asks it, and leaves it running.
func TestAttachToARunningLanguageServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("processes are found on Linux only")
	}
	name := filepath.Join(t.TempDir(), "language_server_linux_x64")
	if err := os.Symlink(os.Args[0], name); err != nil {
		t.Fatal(err)
	}
	workspace := t.TempDir()
	processes := discover.Options{Home: t.TempDir(), Proc: t.TempDir(), Limit: await.Limit} // not those of other tests
	attached := NewAttached(Options{
		Upstream: config.Upstream{Name: "desk", Kind: config.KindLangserver, Attach: true, Workspace: workspace, Concurrency: 1},
		Logger:   testLogger(t), Now: time.Now, processes: processes,
	})
	if _, err := attached.Models(t.Context()); perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("without a language server: %v", err)
	}
	if status := attached.Status(); status.State != supervisor.Stopped || status.LastExit == "" {
		t.Errorf("without a language server: %+v", status)
	}

	r := newRig(t, func(o *Options) {
		o.StandIn[0], o.Upstream.Workspace = name, workspace
		o.Upstream.Env = map[string]string{"HOME": t.TempDir()} // as a process of an IDE; in its own home it would be left alone
	})
	r.accounts.set(credential("ada@example.com", "sim-project-ada"))
	r.Server.signIn.Check()
	process := r.wants("a process", ready)
	pid := strconv.Itoa(process.PID)
	if err := os.Symlink(filepath.Join("/proc", pid), filepath.Join(processes.Proc, pid)); err != nil {
		t.Fatal(err)
	}

	request := perigee.NewRequest(perigee.Origin{}, "gemini-3-flash", true, func() (*perigee.Prompt, error) {
		return &perigee.Prompt{Contents: []perigee.Content{
			{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("[[text: from the IDE]]")}}},
		}}, nil
	})
	var text strings.Builder
	for event, err := range attached.Stream(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == perigee.EventText {
			text.WriteString(event.Text)
		}
	}
	if text.String() != "from the IDE" {
		t.Errorf("got %q", text.String())
	}
	if status := attached.Status(); status.State != supervisor.Ready || status.PID != process.PID {
		t.Errorf("with a language server: %+v", status)
	}
	users, err := r.client.Start(t.Context(), lsclient.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := r.client.Conversations(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("before the end: %d conversations, %v", len(list), err)
	}
	if err := attached.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := r.client.Conversations(t.Context()); err != nil || len(list) != 1 || list[users] == nil {
		t.Errorf("not only the conversation of the user is left: %v, %v", list, err)
	}
	if status := r.Status(); status.State != supervisor.Ready || status.PID != process.PID {
		t.Errorf("afterwards: %+v", status)
	}
}
