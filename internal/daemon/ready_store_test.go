package daemon_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// The owner reads in /ready why calls cannot be recorded; over TCP the cause is not told.
func TestReadyTellsTheOwnerWhyCallsAreNotRecorded(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g, book, _ := daemontest.Follow(t, stage.Config(""))
	db, err := sql.Open("sqlite", "file:"+daemon.StoreOptions(g.Config).Path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON calls BEGIN SELECT RAISE(ABORT, 'no calls today'); END`); err != nil {
		t.Fatal(err)
	}
	if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusOK {
		t.Fatalf("the call got %d", got)
	}
	book.Line(t, "calls cannot be recorded for now")
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", daemon.SocketPath(g.Config))
	}}}
	for _, c := range []struct {
		base string
		cl   *http.Client
		want bool
	}{{"http://localhost", socket, true}, {g.URL(), daemontest.Client, false}} {
		resp, err := c.cl.Get(c.base + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var answer struct{ Reasons []string }
		if err := json.Unmarshal(raw, &answer); err != nil || resp.StatusCode != http.StatusServiceUnavailable || len(answer.Reasons) != 1 {
			t.Fatalf("got %d %s (%v)", resp.StatusCode, raw, err)
		}
		if got := strings.Contains(answer.Reasons[0], "no calls today"); got != c.want {
			t.Errorf("%s says %q", c.base, answer.Reasons)
		}
	}
}
