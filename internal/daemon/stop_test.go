package daemon_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

func TestClientThatLeavesEndsTheCallUpstream(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	resp := daemontest.OpenStream(t, g, "")
	_ = resp.Body.Close()
	await.Receive(t, stage.Gone, "the provider to notice")
	if c := g.Ended(t, perigee.OutcomeCanceled); c.Class != perigee.ClassCanceled {
		t.Errorf("recorded as %s", c.Class)
	}
}

func TestStopLetsOpenStreamsFinish(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	resp := daemontest.OpenStream(t, g, "")
	stopped := daemontest.Stopping(context.Background(), g)
	await.Until(t, "nobody new is let in", func() bool {
		resp, err := daemontest.Client.Get(g.URL() + "/health")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
	select {
	case <-stopped:
		t.Fatal("stopped with a stream open")
	default:
	}
	close(stage.GoOn)
	if got := daemontest.Rest(t, resp); got != "data: "+daemontest.LastEvent+"\r\n\r\n" {
		t.Errorf("the rest of the stream is %q", got)
	}
	await.Receive(t, stopped, "the daemon to stop")
	if c := g.Ended(t, perigee.OutcomeDone); c.Usage.Output != 3 {
		t.Errorf("recorded with %+v", c.Usage)
	}
}

func TestStopCutsOffWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	resp := daemontest.OpenStream(t, g, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the limit is over at once
	stopped := daemontest.Stopping(ctx, g)
	if got := daemontest.Rest(t, resp); !strings.HasPrefix(got, `data: {"error":{"code":503,"message":"perigee is shutting down`) {
		t.Errorf("the stream ended with %q", got)
	}
	await.Receive(t, stage.Gone, "the provider to notice")
	await.Receive(t, stopped, "the daemon to stop")
	if c := g.Ended(t, perigee.OutcomeCutOff); !strings.Contains(c.Error, "shutting down") {
		t.Errorf("recorded as %s: %s", c.Class, c.Error)
	}
}

// A live view is no call: it ends when the daemon stops, which does not wait for it.
func TestStopDoesNotWaitForLiveViews(t *testing.T) {
	t.Parallel()
	g := daemontest.Start(t, "", nil)
	token, err := os.ReadFile(filepath.Join(g.Config.DataDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Address+"/v1/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), "following") {
		t.Fatalf("%d: %q", resp.StatusCode, lines.Text())
	}
	stopped := daemontest.Stopping(t.Context(), g) // without a limit of time
	for lines.Scan() {
		t.Errorf("a further line: %q", lines.Text())
	}
	await.Receive(t, stopped, "the daemon to stop")
}

// What a killed daemon left open, the next one marks.
func TestKilledDaemonLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	dir := daemontest.DataDir(t)
	child := daemontest.StartChild(t, stage.Config(""), dir)
	resp := daemontest.OpenStream(t, &daemontest.Gateway{Address: child.URL}, "")
	await.Until(t, "the open call is on disk", func() bool {
		calls, err := daemontest.Recorded(t.Context(), dir)
		return err == nil && len(calls) == 1 && calls[0].Outcome == perigee.OutcomeOpen
	})
	child.Kill(t)
	_ = resp.Body.Close()
	g := daemontest.StartIn(t, daemontest.Sources(stage.Config(""), dir), nil)
	if c := g.Ended(t, perigee.OutcomeCutOff); c.Error != "perigee ended before the call did" {
		t.Errorf("recorded with %s", c.Error)
	}
}

func TestTwoDaemonsDoNotShareADirectory(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	first, err := daemontest.Launch(t.Context(), daemontest.Sources("", dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := daemontest.Launch(t.Context(), daemontest.Sources("", dir), nil)
	if err == nil {
		second.Daemon.Stop(t.Context())
		t.Fatal("the second one started")
	}
	if !strings.Contains(err.Error(), "another perigee") || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not help: %v", err)
	}
	if daemontest.Status(t, first, "countTokens", "") != 200 {
		t.Error("the first one does not answer any more")
	}
	first.Daemon.Stop(t.Context())
	third, err := daemontest.Launch(t.Context(), daemontest.Sources("", dir), nil)
	if err != nil {
		t.Fatalf("the directory is not free again: %v", err)
	}
	third.Daemon.Stop(t.Context())
}

// A second start on a directory in use must not touch what is open there.
func TestRefusedDaemonLeavesOpenCallsAlone(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	resp := daemontest.OpenStream(t, g, "")
	if second, err := daemontest.Launch(t.Context(), daemontest.Sources("", g.Config.DataDir), nil); err == nil {
		second.Daemon.Stop(t.Context())
		t.Fatal("the second one started")
	}
	close(stage.GoOn)
	daemontest.Rest(t, resp)
	g.Ended(t, perigee.OutcomeDone)
}

func TestStartThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := daemontest.DataDir(t)
	blocker := dir + "/perigee.db"
	if err := os.WriteFile(blocker, []byte("this is no database, and long enough to be sure of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "store: {url: \"postgres://localhost/perigee\"}\n"} {
		if g, err := daemontest.Launch(t.Context(), daemontest.Sources(text, dir), nil); err == nil {
			g.Daemon.Stop(t.Context())
			t.Errorf("started with %q", text)
		}
	}
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	g, err := daemontest.Launch(t.Context(), daemontest.Sources("", dir), nil)
	if err != nil {
		t.Fatalf("the lock was not given back: %v", err)
	}
	g.Daemon.Stop(t.Context())
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: blocker, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
}
