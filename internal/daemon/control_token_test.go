package daemon_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"perigee/internal/daemon"
)

func TestAdminTokenGuardsTheAccounts(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var mu sync.Mutex
	w := newTower(t, true, "keys: [{name: laptop, secret: secret-laptop}]\n", adaAlone, func(o *daemon.Options) {
		o.Logger = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return log.Write(p) }), &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	file := filepath.Join(w.gateway.cfg.DataDir, "admin.token")
	read := func() string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	get := func(method, path, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, w.gateway.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode, string(body)
	}
	first := read()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || len(first) != 64 {
		t.Errorf("the token has %d characters, and mode %v (%v)", len(first), info.Mode(), err)
	}
	for token, want := range map[string]int{
		"": 401, "wrong": 401, first[:32]: 401, strings.ToUpper(first): 401, "secret-laptop": 403, first: 200,
	} {
		for _, path := range []string{"/v1/accounts", "/v1/accounts/status"} {
			if got, body := get(http.MethodGet, path, token); got != want || strings.Contains(body, first) || strings.Contains(body, "sim-refresh") {
				t.Errorf("%s with %q: got %d, want %d: %s", path, token, got, want, body)
			}
		}
	}
	for token, want := range map[string]int{"": 401, "secret-laptop": 200} {
		if got, body := get(http.MethodGet, "/v1/quota", token); got != want {
			t.Errorf("/v1/quota with %q: got %d, want %d: %s", token, got, want, body)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, _ := get(http.MethodGet, "/v1/accounts", first); got != 401 {
		t.Errorf("the token whose file is gone opens: %d", got)
	}
	second := read()
	if got, _ := get(http.MethodGet, "/v1/accounts", second); got != 200 || second == first {
		t.Errorf("the new token gets %d", got)
	}
	// A token that somebody emptied opens to nobody, and is replaced.
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := get(http.MethodGet, "/v1/accounts", ""); got != 401 {
		t.Errorf("nothing opens: %d", got)
	}
	_, _ = get(http.MethodGet, "/v1/accounts", "wrong")
	if third := read(); len(third) != 64 {
		t.Errorf("the emptied token was not replaced")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, secret := range []string{first, second, "sim-refresh", "secret-laptop"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("a secret is in the log")
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
