package accounttests

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

func TestAdminTokenGuardsTheAccounts(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	var log daemontest.Log
	w := newAccountRig(t, true, "keys: [{name: laptop, secret: secret-laptop}]\n", adaAlone, func(o *daemon.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	file := filepath.Join(w.gateway.Config.DataDir, "admin.token")
	read := func() string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	get := func(path, token string) (int, string) {
		status, body, err := (&daemontest.Owner{Base: w.gateway.URL(), Token: token}).Do(t.Context(), http.MethodGet, path, "")
		if err != nil {
			t.Fatal(err)
		}
		return status, body
	}
	first := read()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || len(first) != 64 {
		t.Errorf("the token has %d characters, and mode %v", len(first), info.Mode())
	}
	for token, want := range map[string]int{
		"": 401, "wrong": 401, first[:32]: 401, strings.ToUpper(first): 401, "secret-laptop": 403, first: 200,
	} {
		for _, path := range []string{"/v1/accounts", "/v1/accounts/status"} {
			if got, body := get(path, token); got != want || strings.Contains(body, first) || strings.Contains(body, "sim-refresh") {
				t.Errorf("%s with %q: got %d, want %d: %s", path, token, got, want, body)
			}
		}
	}
	for token, want := range map[string]int{"": 401, "secret-laptop": 200} {
		if got, body := get("/v1/quota", token); got != want {
			t.Errorf("/v1/quota with %q: got %d, want %d: %s", token, got, want, body)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, _ := get("/v1/accounts", first); got != 401 {
		t.Errorf("the token whose file is gone opens: %d", got)
	}
	second := read()
	if got, _ := get("/v1/accounts", second); got != 200 || second == first {
		t.Errorf("the new token gets %d", got)
	}
	// An empty token file gives no access, and is replaced.
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := get("/v1/accounts", ""); got != 401 {
		t.Errorf("nothing opens: %d", got)
	}
	_, _ = get("/v1/accounts", "wrong")
	if third := read(); len(third) != 64 {
		t.Errorf("the emptied token was not replaced")
	}
	if len(log.Bytes()) == 0 {
		t.Error("nothing was logged")
	}
	for _, secret := range []string{first, second, "sim-refresh", "secret-laptop"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("a secret is in the log")
		}
	}
}
