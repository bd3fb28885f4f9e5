package daemon_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// profile asks for a profile through the socket, and returns the files of the archive. The files of
// pprof are decompressed.
func profile(ctx context.Context, g *daemontest.Gateway, duration string) (status int, files map[string]string, err error) {
	resp, err := remote.New(daemon.SocketPath(g.Config)).Open(ctx, http.MethodGet, daemon.ProfilePath+"?duration="+duration)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, nil, nil
	}
	compressed, err := gzip.NewReader(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	files = map[string]string{}
	for in := tar.NewReader(compressed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return resp.StatusCode, files, nil
		}
		if err != nil {
			return 0, nil, err
		}
		data, err := io.ReadAll(in)
		if err == nil && strings.HasSuffix(head.Name, ".pprof") {
			var unpacked io.Reader
			if unpacked, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
				data, err = io.ReadAll(unpacked)
			}
		}
		if err != nil {
			return 0, nil, err
		}
		files[head.Name] = string(data)
	}
}

// A process has one CPU profile at a time, so the tests of profiles are one after the other.
func TestProfiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not guard sockets here")
	}
	t.Run("only the socket has them", testProfileNeedsTheSocket)
	t.Run("they have no data of calls", testProfileHasNoData)
	t.Run("one at a time", testOneProfileAtATime)
}

func testProfileNeedsTheSocket(t *testing.T) {
	g := daemontest.Start(t, "keys: [{name: laptop, secret: secret-laptop}]\n", nil)
	admin := daemontest.AdminOf(t, g).Token
	for key, want := range map[string]int{"": http.StatusUnauthorized, "secret-laptop": http.StatusForbidden, admin: http.StatusForbidden} {
		if got, answer := g.Request(t, http.MethodGet, daemon.ProfilePath+"?duration=100ms", key, ""); got != want {
			t.Errorf("key %.8q: got %d, want %d: %.100q", key, got, want, answer)
		} else if !strings.Contains(answer, "socket only: use perigee doctor --profile") || strings.Contains(answer, "admin.token") {
			t.Errorf("key %.8q: the hint does not name the command: %s", key, answer)
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline"} {
			if got, answer := g.Request(t, http.MethodGet, path, key, ""); got < 400 {
				t.Errorf("%s with key %.8q: got %d: %.100q", path, key, got, answer)
			}
		}
	}
	for _, duration := range []string{"", "10", "99ms", "5m1s", "-1s"} {
		if got, _, err := profile(t.Context(), g, duration); got != http.StatusBadRequest {
			t.Errorf("duration %q: got %d (%v)", duration, got, err)
		}
	}
}

func testProfileHasNoData(t *testing.T) {
	const secret, prompt = "canary-of-a-secret", "canary-of-a-prompt"
	g := daemontest.Start(t, "keys: [{name: laptop, secret: "+secret+"}]\n", nil)
	body := `{"contents":[{"role":"user","parts":[{"text":"` + prompt + `"}]}]}`
	if status, answer := g.Request(t, http.MethodPost, "/v1beta/models/gemini-3-flash:generateContent", secret, body); status != http.StatusOK {
		t.Fatalf("got %d: %s", status, answer)
	}
	status, files, err := profile(t.Context(), g, "100ms")
	if status != http.StatusOK || err != nil {
		t.Fatalf("got %d (%v)", status, err)
	}
	for name, want := range map[string]string{"about.txt": "for each 4194304 bytes", "cpu.pprof": "cpu", "heap.pprof": "inuse_space", "goroutines.txt": "internal/daemon"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not have %q: %.200q", name, want, files[name])
		}
	}
	for name, data := range files {
		for _, private := range []string{secret, prompt, daemontest.AdminOf(t, g).Token, g.Config.DataDir} {
			if strings.Contains(data, private) {
				t.Errorf("%s has %q", name, private)
			}
		}
	}
}

func testOneProfileAtATime(t *testing.T) {
	g := daemontest.Start(t, "", nil)
	// long records until its context or the daemon ends. It tries again while a short profile of the
	// test is recorded.
	long := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			for {
				status, _, err := profile(ctx, g, "5m")
				if status != http.StatusServiceUnavailable {
					ended <- err
					return
				}
			}
		}()
		return ended
	}
	gets := func(want int) func() bool {
		return func() bool {
			status, _, err := profile(t.Context(), g, "100ms")
			return err == nil && status == want
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := long(ctx)
	await.Until(t, "the refusal of a second profile", gets(http.StatusServiceUnavailable))
	cancel()
	if err := await.Receive(t, ended, "the end of a profile without its client"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	await.Until(t, "the next profile", gets(http.StatusOK))

	ended = long(t.Context())
	await.Until(t, "the refusal of a second profile", gets(http.StatusServiceUnavailable))
	await.Return(t, func() { g.Daemon.Stop(t.Context()) }, "the end of the daemon")
	if err := await.Receive(t, ended, "the end of a profile with its daemon"); !errors.Is(err, daemon.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}
