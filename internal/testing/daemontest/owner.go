package daemontest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// Entries are what the audit log of a daemon has, newest first.
func Entries(t *testing.T, cfg *config.Config) []perigee.AuditEntry {
	t.Helper()
	rows, err := daemon.Ask[[]perigee.AuditEntry](t.Context(), cfg, "/v1/audit")
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// An Owner has the admin token.
type Owner struct{ Base, Token string }

// AdminOf is the owner of a daemon in this process.
func AdminOf(t *testing.T, g *Gateway) *Owner {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(g.Config.DataDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return &Owner{Base: g.URL(), Token: strings.TrimSpace(string(token))}
}

// Do makes a request. It is the caller's to report whether an error is one.
func (o *Owner) Do(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	return o.DoChanged(ctx, method, path, body, func(*http.Request) {})
}

// DoChanged makes a request that the caller has a last look at.
func (o *Owner) DoChanged(ctx context.Context, method, path, body string, change func(*http.Request)) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, o.Base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}
	change(req)
	resp, err := Client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// Rows asks for a list.
func Rows[T any](t *testing.T, o *Owner, path string) (list []T) {
	t.Helper()
	status, body, err := o.Do(t.Context(), http.MethodGet, path, "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s %v", path, status, body, err)
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
	return list
}
