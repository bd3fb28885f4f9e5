package mcpcmd_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee"
	"perigee/internal/cli/mcpcmd"
	"perigee/internal/daemon"
	"perigee/internal/mcp/ask"
	"perigee/internal/store/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The owner's clients are answered without a daemon, by the daemon that starts meanwhile, and
// without it again. Every ask is recorded once.
func TestTheDaemonComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	loaded, err := config.Load(config.Sources{
		Env: func(string) (string, bool) { return "", false }, HomeDir: dir, ConfigDir: dir, Flags: map[string]string{"data_dir": filepath.Join(dir, "d"), "listen": "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	options := daemon.Options{Loaded: loaded, Version: "test", Logger: slog.New(slog.DiscardHandler)}
	o := mcpcmd.NewOwner(options, func() (daemon.Options, error) { return options, nil })
	defer o.Close()
	asks := 0
	check := func() {
		t.Helper()
		answer, err := o.Ask(t.Context(), ask.Request{Prompt: "[[text: hello]]"}, func(ask.Progress) {})
		if err != nil || answer.Status != ask.Done || !strings.HasSuffix(answer.Text, "hello") || answer.Source != "simulator" {
			t.Fatalf("got %+v, %v", answer, err)
		}
		asks++
		rows, err := o.Usage(t.Context(), perigee.UsageQuery{By: perigee.ByModel})
		if err != nil || len(rows) != 1 || rows[0].Calls != int64(asks) {
			t.Errorf("after %d asks: %+v, %v", asks, rows, err)
		}
		control, done, err := o.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		models, err := control.Models(t.Context(), "", false)
		if err != nil || len(models.Rows) == 0 {
			t.Errorf("models: %d, %v", len(models.Rows), err)
		}
	}
	check()
	check()
	d, err := daemon.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	check()
	if _, err := o.Ask(t.Context(), ask.Request{Prompt: "x", Model: "no-such-model"}, nil); err == nil {
		t.Error("a model that there is not")
	}
	trace, found, err := o.LastFailure(t.Context(), "", true)
	if err != nil || !found || trace.Class == "" {
		t.Errorf("the last error: %+v, %v, %v", trace, found, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d.Stop(ctx)
	answer, err := o.Ask(t.Context(), ask.Request{Prompt: "[[text: again]]"}, nil)
	if err != nil || !strings.HasSuffix(answer.Text, "again") {
		t.Errorf("got %+v, %v", answer, err)
	}
}
