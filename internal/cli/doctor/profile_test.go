package doctor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/store/datadir"
	"perigee/internal/testing/perigeetest/await"
)

// profileRig runs recordProfile in an empty directory, against a daemon that answers with a handler.
func profileRig(t *testing.T, ctx context.Context, answer http.HandlerFunc) (stdout string, err error) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not guard sockets here")
	}
	dir, err := os.MkdirTemp("", "perigee") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("data_dir: "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, datadir.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc(daemon.ProfilePath, answer)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	t.Chdir(t.TempDir())
	var out, remarks bytes.Buffer
	err = recordProfile(ctx, &cli.Env{Program: &cli.Program{}, Config: file, Stdout: &out, Stderr: &remarks}, time.Second)
	return out.String(), err
}

// written returns the names of the files in the current directory.
func written(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

func TestProfileIsWrittenForItsOwner(t *testing.T) {
	stdout, err := profileRig(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("archive")) })
	names := written(t)
	if err != nil || len(names) != 1 || stdout != names[0]+"\n" {
		t.Fatalf("got %q and %v: %v", stdout, names, err)
	}
	info, err := os.Stat(names[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v (%v)", info.Mode(), err)
	}
	if data, err := os.ReadFile(names[0]); string(data) != "archive" {
		t.Errorf("got %q (%v)", data, err)
	}
}

func TestProfilesAreNotOverwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Now()
	for n := range 3 {
		file, err := createProfile(now)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		if got := len(written(t)); got != n+1 {
			t.Errorf("%d files after %d profiles", got, n+1)
		}
	}
}

func TestNoFileIsLeftWithoutAProfile(t *testing.T) {
	cutOff := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("arch"))
		panic(http.ErrAbortHandler)
	}
	end := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		ended  bool // counts as a daemon that cannot be reached
	}{"cut off": {cutOff, true}, "ended": {end, true}, "refused": {refuse, false}} {
		t.Run(name, func(t *testing.T) {
			stdout, err := profileRig(t, t.Context(), c.answer)
			if err == nil || errors.Is(err, daemon.ErrNoAnswer) != c.ended || stdout != "" {
				t.Errorf("got %q and %v", stdout, err)
			}
			if names := written(t); len(names) != 0 {
				t.Errorf("left %v", names)
			}
		})
	}
}

func TestProfileCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	_, err := profileRig(t, ctx, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(left)
	})
	if names := written(t); !errors.Is(err, cli.ErrInterrupted) || len(names) != 0 {
		t.Errorf("got %v, and %v was left", err, names)
	}
	await.Receive(t, left, "the daemon's notice")
}
