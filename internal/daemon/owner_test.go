package daemon_test

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
)

// The owner's socket asks for no key: the file system decides which users may connect.
func TestSocketNeedsNoKey(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not guard sockets here")
	}
	g := daemontest.Start(t, "keys: [{name: laptop, secret: secret-laptop}]\n", nil)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", daemon.SocketPath(g.Config))
	}}
	resp, err := (&http.Client{Transport: transport}).Get("http://perigee/v1/usage")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the owner got status %d", resp.StatusCode)
	}
	if got := daemontest.Status(t, g, "countTokens", ""); got != http.StatusUnauthorized {
		t.Errorf("a client without a key got status %d", got)
	}
}

func TestDataDirectoryIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes here")
	}
	g := daemontest.Start(t, "", nil)
	if got := daemontest.Status(t, g, "countTokens", ""); got != http.StatusOK {
		t.Errorf("the status is %d", got)
	}
	seen := 0
	err := filepath.WalkDir(g.Config.DataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", filepath.Base(path), info.Mode())
		}
		return nil
	})
	if err != nil || seen < 4 {
		t.Errorf("saw %d files (%v)", seen, err)
	}
}

// Without upstreams the simulator answers, and says so.
func TestSimulatorAnswersWithoutUpstreams(t *testing.T) {
	t.Parallel()
	g := daemontest.Start(t, "", nil)
	resp := daemontest.Ask(t, g, "generateContent", "")
	body := daemontest.Rest(t, resp)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Perigee-Upstream") != daemon.SimulatorName || !g.Simulated() {
		t.Errorf("got %d %v: %s", resp.StatusCode, resp.Header, body)
	}
}
