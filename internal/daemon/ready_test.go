package daemon_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// readiness asks GET /ready and returns its status and reasons.
func readiness(t *testing.T, g *daemontest.Gateway) (status int, reasons string) {
	t.Helper()
	resp, err := daemontest.Client.Get(g.URL() + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status  string
		Reasons []string
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if (answer.Status == "ready") != (resp.StatusCode == http.StatusOK) || (len(answer.Reasons) == 0) != (resp.StatusCode == http.StatusOK) {
		t.Errorf("%d with %s", resp.StatusCode, body)
	}
	return resp.StatusCode, strings.Join(answer.Reasons, "; ")
}

// wantReady asks until readiness is as wanted.
func wantReady(t *testing.T, g *daemontest.Gateway, status int, reason string) {
	t.Helper()
	await.Until(t, "readiness is "+http.StatusText(status)+" "+reason, func() bool {
		got, reasons := readiness(t, g)
		return got == status && reasons == reason
	})
}

func TestReadyNeedsAKeyThatTheProviderAccepts(t *testing.T) {
	t.Parallel()
	provider := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Goog-Api-Key") {
		case "good-key":
			_, _ = w.Write([]byte(daemontest.LastEvent))
		case "limited-key":
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota"}}`))
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid.","details":[` +
				`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`))
		}
	}))
	config := func(keys string) string {
		return "upstreams: [{name: studio, kind: gemini, url: \"" + provider + "\", keys: [" + keys + "]}]\nkeys: [{name: a, secret: secret-a}]\n"
	}
	for keys, want := range map[string]int{"bad-key": 503, "bad-key, worse-key": 503, "bad-key, good-key": 200, "limited-key": 200, "bad-key, limited-key": 200} {
		g := daemontest.Start(t, config(keys), nil)
		wantReady(t, g, http.StatusOK, "") // as far as known
		daemontest.Status(t, g, "generateContent", "secret-a")
		reason := ""
		if want == http.StatusServiceUnavailable {
			reason = "no upstream can be used"
		}
		if got, reasons := readiness(t, g); got != want || reasons != reason {
			t.Errorf("with the keys %s: %d %q", keys, got, reasons)
		}
		resp, err := daemontest.Client.Get(g.URL() + "/health")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("with the keys %s it is not even alive: %v, %v", keys, resp, err)
			continue
		}
		_ = resp.Body.Close()
	}
}

func TestReadyNeedsAnAccount(t *testing.T) {
	t.Parallel()
	_, url := daemontest.StartSimulator(t, simulator.Options{})
	g := daemontest.Start(t, daemontest.AntigravityConfig(url, ""), nil)
	wantReady(t, g, http.StatusServiceUnavailable, "no upstream can be used")
	both := daemontest.Start(t, daemontest.AntigravityConfig(url, "")+"  - {name: sim, kind: simulator}\n", nil)
	wantReady(t, both, http.StatusOK, "")
}

func TestNotReadyWhileStopping(t *testing.T) {
	t.Parallel()
	provider := daemontest.NewStage(t)
	g := daemontest.Start(t, provider.Config("limits: {shutdown_delay: 1h}\n"), nil)
	open := daemontest.OpenStream(t, g, "")
	wantReady(t, g, http.StatusOK, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := daemontest.Stopping(ctx, g)
	wantReady(t, g, http.StatusServiceUnavailable, "perigee is stopping")
	second := daemontest.OpenStream(t, g, "") // balancers still send calls for a moment
	close(provider.GoOn)
	daemontest.Rest(t, open)
	daemontest.Rest(t, second)
	cancel() // a second signal
	await.Receive(t, stopped, "the daemon to stop")
}

// A database that takes questions and answers none: readiness says so, and nothing waits for it
// longer than the client does.
func TestDatabaseThatHangs(t *testing.T) {
	t.Parallel()
	address := dbtest.Postgres(t)
	provider := daemontest.NewStage(t)
	close(provider.GoOn)
	g := daemontest.Start(t, provider.Config(daemontest.StoreConfig(address, daemontest.NewSealKey())), nil)
	wantReady(t, g, http.StatusOK, "")
	unlock := lockAllTables(t, address)
	wantReady(t, g, http.StatusServiceUnavailable, "the database cannot be used")
	resp, err := daemontest.Client.Get(g.URL() + "/v1/usage")
	if err != nil {
		t.Fatal(err)
	}
	if body := daemontest.Rest(t, resp); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "perigee cannot use its database at the moment") {
		t.Errorf("usage: %d %s", resp.StatusCode, body)
	}
	answer := daemontest.PostJSON(t, g, "/v1/responses", `{"model":"gemini-2.5-flash","input":"Hi","stream":true}`)
	if body := daemontest.Rest(t, answer); answer.StatusCode != http.StatusOK || !strings.Contains(body, "response.completed") {
		t.Errorf("responses: %d %s", answer.StatusCode, body)
	}
	unlock()
	wantReady(t, g, http.StatusOK, "")
}

// lockAllTables keeps everything else from the tables of a schema until the function that it
// returns is called.
func lockAllTables(t *testing.T, address string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(`SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, pgx.Identifier{name}.Sanitize())
	}
	if err := rows.Err(); err != nil || len(tables) == 0 {
		t.Fatalf("tables %v, %v", tables, err)
	}
	if _, err := tx.Exec(`LOCK TABLE ` + strings.Join(tables, ", ") + ` IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// A daemon that hangs does not answer, and the error names the next step.
func TestReadinessOfADaemonThatHangs(t *testing.T) {
	cfg := &config.Config{DataDir: daemontest.DataDir(t)}
	l, err := net.Listen("unix", daemon.SocketPath(cfg)) // connections wait for an Accept
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := daemon.ReadyWithin(t.Context(), cfg, time.Millisecond); !errors.Is(err, daemon.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}
