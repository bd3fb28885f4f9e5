package doctor

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
)

func write(t *testing.T, path, text string, mode fs.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigHasTheFixOfItsFirstProblem(t *testing.T) {
	for _, c := range []struct {
		text, env, fix string
		status         Status
	}{
		{text: "strict: true\n", status: OK},
		{text: "strict: true\nlissten: a\n", status: Fail, fix: `"${EDITOR:-vi}" +2 `},
		{text: "keys: [{name: a, secret: env:NOT_SET}]\n", status: Fail, fix: "export NOT_SET=…"},
		{text: "keys: [{name: a, secret: short}]\n", status: Warn, fix: `"${EDITOR:-vi}" +1 `},
		{text: "{}\n", env: "PERIGEE_STRICT", status: Fail, fix: "unset PERIGEE_STRICT"},
	} {
		path := write(t, filepath.Join(t.TempDir(), "config.yaml"), c.text, 0o600)
		loaded, err := config.Inspect(config.Sources{Path: path, HomeDir: t.TempDir(), Env: func(name string) (string, bool) {
			return "neither", name == c.env
		}})
		r := Config(loaded, err, nil)
		want(t, r, c.status)
		if !strings.HasPrefix(r.Fix, c.fix) {
			t.Errorf("%q: got %+v, want %q", c.text, r, c.fix)
		}
	}
	loaded, err := config.Inspect(config.Sources{Path: write(t, filepath.Join(t.TempDir(), "config.yaml"), "keys: [{name: a, secret: a-secret-that-is-long}]\n", 0o644), HomeDir: t.TempDir(),
		Env: func(string) (string, bool) { return "", false }})
	if runtime.GOOS != "windows" {
		want(t, Config(loaded, err, nil), Warn, "chmod 600 ")
	}
	loaded, err = config.Inspect(config.Sources{ConfigDir: t.TempDir(), HomeDir: t.TempDir(), Env: func(string) (string, bool) { return "", false }})
	want(t, Config(loaded, err, []string{"NAME"}), OK, "defaults apply", "NAME is not set in this shell")
	want(t, Config(nil, errors.New("odd"), nil), Fail, "odd")
	unreadable := &config.Problems{List: []config.Problem{{Origin: config.Origin{Source: loaded.Searched}, Message: fs.ErrPermission.Error()}}}
	want(t, Config(nil, unreadable, nil), Fail, "permission denied", "chmod u+r "+loaded.Searched)
	// A data directory that cannot be used is left to its own check.
	loaded.Warnings = []config.Problem{{Origin: config.Origin{Source: "default"}, Message: "data_dir: /data cannot be written to"}}
	want(t, Config(loaded, nil, nil), OK)
}

func TestDataDirFindsWhatOtherUsersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such modes here")
	}
	preset := config.Origin{Source: "default"}
	dir := filepath.Join(t.TempDir(), "data")
	want(t, DataDir(t.Context(), dir, preset), OK, "does not exist yet")
	write(t, filepath.Join(dir, "perigee.db"), "", 0o600)
	write(t, filepath.Join(dir, "traces/2026-01-01/a/meta.json"), "", 0o600)
	write(t, filepath.Join(dir, "langserver/headless/home/.cache/file"), "", 0o644) // of the language server
	write(t, filepath.Join(dir, "letters.txt"), "", 0o644)                          // not perigee's
	want(t, DataDir(t.Context(), dir, preset), OK, "private to its owner")

	secret := write(t, filepath.Join(dir, "traces/2026-01-01/a/client_request.json"), "", 0o640)
	want(t, DataDir(t.Context(), dir, preset), Fail, secret+" (mode 0640)", "chmod go= "+secret)
	write(t, filepath.Join(dir, "admin.token"), "", 0o604)
	want(t, DataDir(t.Context(), dir, preset), Fail, "admin.token", "chmod -R go= "+dir)
	for range 3 {
		write(t, filepath.Join(dir, "images", t.Name()+time.Now().String()), "", 0o644)
	}
	want(t, DataDir(t.Context(), dir, preset), Fail, " and 2 more")

	for _, path := range []string{secret, filepath.Join(dir, "admin.token")} {
		_ = os.Remove(path)
	}
	_ = os.RemoveAll(filepath.Join(dir, "images"))
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, DataDir(t.Context(), dir, preset), Fail, dir+" (mode 0755)", "chmod go= "+dir)
	file := write(t, filepath.Join(t.TempDir(), "file"), "", 0o600)
	want(t, DataDir(t.Context(), file, preset), Fail, "is not a directory")
	want(t, DataDir(t.Context(), filepath.Join(file, "below"), preset), Fail, "not a directory")
	// One that was chosen is not moved away, or made where it cannot be: another one is chosen.
	for origin, fix := range map[config.Origin]string{
		{Source: "environment PERIGEE_DATA_DIR"}:          "unset PERIGEE_DATA_DIR",
		{Source: "/etc/perigee.yaml", Line: 3, Column: 1}: edit("/etc/perigee.yaml", 3),
	} {
		for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/none"} {
			if r := DataDir(t.Context(), dir, origin); r.Status != Fail || r.Fix != fix || !r.Blocks {
				t.Errorf("%s, %s: got %+v, want %q", dir, origin, r, fix)
			}
		}
	}
	want(t, DataDir(t.Context(), "/proc/none", preset), Fail, "sudo install -d")
}

func TestDiskSpaceIsComparedWithTraces(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "traces/2026-01-01/a/client_request.json"), strings.Repeat("x", 1<<20), 0o600)
	for _, c := range []struct {
		disk   atomicfile.Disk
		keep   int64
		status Status
		words  string
	}{
		{atomicfile.Disk{Free: 10 << 30}, 200 << 20, OK, "10 GiB free"},
		{atomicfile.Disk{Free: 1 << 20}, 0, Fail, "1 MiB free"},
		{atomicfile.Disk{Free: 100 << 20}, 200 << 20, Warn, "may need 263 MiB more"},
		{atomicfile.Disk{Free: 100 << 20}, 1 << 20, OK, "100 MiB free"},
		{atomicfile.Disk{Free: 10 << 30, HasLimits: true, Files: 12}, 0, Fail, "only 12 more files"},
	} {
		want(t, DiskSpace(t.Context(), dir, c.keep, func(string) (atomicfile.Disk, bool) { return c.disk, true }), c.status, c.words)
	}
	want(t, DiskSpace(t.Context(), filepath.Join(dir, "not/there"), 0, func(asked string) (atomicfile.Disk, bool) {
		return atomicfile.Disk{}, asked != dir
	}), OK, "is not known")
}

func TestStoreIsOpenedReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "perigee.db")
	options := sqlstore.Options{Path: path}
	want(t, Store(t.Context(), options, false), OK, "no database yet")
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has created the directory: %v", err)
	}
	store, err := sqlstore.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	account := perigee.SignIn{Account: perigee.Account{Email: "ada@example.com", Upstream: "gravity", Enabled: true}, Refresh: perigee.NewSecret("a-token")}
	if _, err := store.Accounts(plain{}).AddSignIns(t.Context(), []perigee.SignIn{account}); err != nil {
		t.Fatal(err)
	}
	want(t, Store(t.Context(), options, false), OK, path, "not damaged") // beside a writer
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := StoredAccounts(t.Context(), options)
	if err != nil || len(rows) != 1 || rows[0].Email != "ada@example.com" || !rows[0].Enabled || rows[0].Unopened {
		t.Errorf("got %+v, %v", rows, err)
	}

	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(whole); i++ {
		whole[i] ^= 0x5a
	}
	write(t, path, string(whole), 0o600)
	want(t, Store(t.Context(), options, false), Fail, "damaged", "mv "+path+"* ")
	write(t, path, "this is a text and no database, whatever its name is", 0o600)
	want(t, Store(t.Context(), options, false), Fail, "mv "+path+"* ")
	if rows, err := StoredAccounts(t.Context(), options); err == nil {
		t.Errorf("got %v", rows)
	}

	remote := sqlstore.Options{URL: perigee.NewSecret("postgres://user:canary@127.0.0.1:1/database?connect_timeout=5")}
	want(t, Store(t.Context(), remote, true), OK, "--offline")
	r := Store(t.Context(), remote, false)
	want(t, r, Fail)
	if strings.Contains(r.Detail+r.Fix, "canary") {
		t.Errorf("the password is in %+v", r)
	}
}

// A database that only a newer perigee can use is replaced by the newest copy that this program can
// use, and kept in another directory.
func TestStoreOfANewerPerigee(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a data_dir", "perigee.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	options := sqlstore.Options{Path: path}
	store, err := sqlstore.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	const older = "DELETE FROM schema_version WHERE version > 15"
	for _, step := range []struct{ copy, statement, fix string }{
		{"", "INSERT INTO schema_version (version, name, applied_us) VALUES (99, 'future', 0)", ""},
		{"", "UPDATE schema_version SET compatible_with = 98 WHERE version = 99", "perigee version"},
		{".before-my-experiment", "", "perigee version"},
		{".before-100", "", "perigee version"}, // this program cannot use it either
		{".before-9", "DELETE FROM schema_version", "perigee version"},
		{".before-16", older, "mv perigee.db.before-16 perigee.db)"},
		{".before-17", older + "; UPDATE schema_version SET name = 'kept'", "mv perigee.db.before-17 perigee.db)"},
	} {
		target := db
		if step.copy != "" {
			if _, err := db.Exec("VACUUM INTO ?", path+step.copy); err != nil {
				t.Fatal(err)
			}
			if target, err = sql.Open("sqlite", path+step.copy); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := target.Exec(step.statement); err != nil {
			t.Fatal(err)
		}
		if target != db {
			_ = target.Close()
		}
		if r := Store(t.Context(), options, false); step.fix == "" {
			want(t, r, OK, "not damaged")
		} else {
			want(t, r, Fail, "version 99", "at least version 98", step.fix)
		}
	}
	_ = db.Close()
	r := Store(t.Context(), options, false)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", r.Fix).CombinedOutput(); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip(err)
		}
		t.Fatalf("%s: %v, %s", r.Fix, err, out)
	}
	want(t, Store(t.Context(), options, false), Warn, "at schema version 15")
	aside, err := filepath.Glob(filepath.Join(filepath.Dir(path), "newer-*", "perigee.db"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("databases that were moved: %q, %v", aside, err)
	}
	want(t, Store(t.Context(), sqlstore.Options{Path: aside[0]}, false), Fail, "version 99")
	if left := sqlstore.Copies(path); len(left) != 3 {
		t.Errorf("copies %q", left)
	}
}

// A database that this program would migrate is fixed by a daemon of this version: in place of the
// older one, if that is running.
func TestStoreOfAnOlderPerigee(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	options := sqlstore.Options{Path: path}
	store, err := sqlstore.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("DELETE FROM schema_version WHERE version > 15"); err != nil {
		t.Fatal(err)
	}
	r := Store(t.Context(), options, false)
	want(t, Daemon{}.migrating(r), Warn, "at schema version 15", "perigee serve")
	running := Daemon{Status: &perigee.DaemonStatus{Listen: "http://127.0.0.1:8741"}, Address: "127.0.0.1:8741"}
	want(t, running.migrating(r), Warn, "older than this command", "perigee serve --replace")
}

// plain is a sealer that leaves texts as they are.
type plain struct{}

func (plain) Seal(secret perigee.Secret, _ ...string) (string, error) { return secret.Reveal(), nil }
func (plain) Open(text string, _ ...string) (perigee.Secret, error) {
	return perigee.NewSecret(text), nil
}

func TestListenNamesTheProgramThatHasThePort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	r := Listen(t.Context(), address, Daemon{})
	want(t, r, Fail, "perigee serve --listen 127.0.0.1:0")
	taken := Daemon{Owner: Owner{PID: 7, Name: "nginx"}}
	want(t, Listen(t.Context(), address, taken), Fail, "nginx (process 7) has port", "perigee serve --listen 127.0.0.1:0")
	taken.Owner.Name = "systemd"
	want(t, Listen(t.Context(), address, taken), Warn, "systemctl start perigee.service")
	taken.Owner = Owner{PID: 7, Name: "perigee", Why: "it uses /old", Restart: "PERIGEE_DATA_DIR=/old perigee stop && perigee serve"}
	want(t, Listen(t.Context(), address, taken), Fail, "it uses /old", "PERIGEE_DATA_DIR=/old perigee stop && perigee serve")
	want(t, Listen(t.Context(), "192.0.2.1:0", Daemon{}), Fail, "is not an address of this machine")

	d := Daemon{Status: &perigee.DaemonStatus{Listen: "http://" + address}, PID: 7}
	want(t, Listen(t.Context(), address, d), OK, "listening on http://"+address)
	want(t, Listen(t.Context(), "127.0.0.1:1", d), OK, "the configuration says 127.0.0.1:1")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, Listen(t.Context(), address, d), Fail, "cannot be reached", "perigee serve --replace")
	silent := Daemon{Err: context.DeadlineExceeded, Silent: 5 * time.Second, PID: 7}
	want(t, Listen(t.Context(), address, silent), Fail, "the daemon (process 7) does not answer within 5s", "perigee serve --replace")
	silent.Restart = "systemctl --user restart perigee.service"
	want(t, Listen(t.Context(), address, silent), Fail, "systemctl --user restart perigee.service")
	want(t, Listen(t.Context(), address, Daemon{}), Warn, "no daemon is running")
	want(t, Listen(t.Context(), address, Daemon{Err: errors.New("its socket is gone")}), Fail, "its socket is gone")
}

func TestVersionOfTheDaemonIsCompared(t *testing.T) {
	d := Daemon{Status: &perigee.DaemonStatus{Version: "v1", Configuration: "/etc/perigee.yaml"}, PID: 7}
	want(t, Version("v1", "/etc/perigee.yaml", d), OK, "process 7")
	want(t, Version("v2", "/etc/perigee.yaml", d), Warn, "perigee v1", "v2")
	want(t, Version("v1", "/home/config.yaml", d), Warn, "/etc/perigee.yaml", "/home/config.yaml")
	d.NotCompared = errors.New("it was refused")
	want(t, Version("v1", "/etc/perigee.yaml", d), Warn, "variables of this shell is unknown: it was refused")
}

// A daemon that does not run with its file as it is now, or not completely, is a warning.
func TestDaemonThatIsBehindItsFile(t *testing.T) {
	d := Daemon{Status: &perigee.DaemonStatus{Version: "v1", Listen: "http://127.0.0.1:1", Refused: "it removes all keys, which needs a restart"}, Address: "127.0.0.1:2"}
	want(t, Version("v1", "", d), Warn, "it removes all keys", "perigee serve --replace --listen 127.0.0.1:1")
	d.Status.Refused, d.Status.Pending = "", []string{"log_format", "limits.head"}
	want(t, Version("v1", "", d), Warn, "log_format, limits.head", "perigee serve --replace --listen 127.0.0.1:1")
	d.Status.Pending = []string{"listen"}
	if r := Version("v1", "", d); r.Fix != "perigee serve --replace" {
		t.Errorf("a new address: %q", r.Fix)
	}
}

func TestClockIsComparedWithAnAnswer(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 30, 0, 0, time.UTC)
	var said time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Method != http.MethodHead {
			t.Errorf("got %s with %v", r.Method, r.Header)
		}
		w.Header().Set("Date", said.Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	c := Clock{DataDir: dir, URL: server.URL, Client: server.Client(), Now: func() time.Time { return now }}
	for skew, status := range map[time.Duration]Status{
		0: OK, 30 * time.Second: OK, -30 * time.Second: OK, 2 * time.Minute: Warn, -2 * time.Minute: Warn, 6 * time.Minute: Fail, -6 * time.Minute: Fail,
	} {
		said = now.Add(-skew)
		word := map[bool]string{true: "ahead of", false: "behind"}[skew > 0]
		if status == OK {
			word = "as at"
		}
		want(t, c.Check(t.Context()), status, word)
	}
	file := write(t, filepath.Join(dir, "perigee.db"), "", 0o600)
	if err := os.Chtimes(file, now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want(t, c.Check(t.Context()), Warn, file, "1h")
	if err := os.Chtimes(file, now, now); err != nil {
		t.Fatal(err)
	}
	server.Close()
	want(t, c.Check(t.Context()), OK, "did not tell its time")
	c.URL = ""
	want(t, c.Check(t.Context()), OK, "compared with files only")
}

func TestProxiesAreNamedWithoutTheirPassword(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, filepath.Join(t.TempDir(), "config.yaml"), "proxy: http://user:canary@"+listener.Addr().String()+"\n"+
		"upstreams:\n  - {name: a, kind: gemini, keys: [a-key]}\n  - {name: b, kind: gemini, keys: [a-key], proxy: none}\n", 0o600)
	loaded, err := config.Load(config.Sources{Path: path, HomeDir: t.TempDir(), Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	list := Proxies(loaded)
	if len(list) != 1 || list[0].Source != path+":1" {
		t.Fatalf("got %+v", list)
	}
	for _, offline := range []bool{true, false} {
		results := CheckProxies(t.Context(), list, offline)
		want(t, results[0], OK, listener.Addr().String())
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	results := CheckProxies(t.Context(), list, false)
	want(t, results[0], Fail, "cannot be reached", "+1 "+path)
	if strings.Contains(results[0].Detail+results[0].Fix, "canary") {
		t.Errorf("the password is in %+v", results[0])
	}
	if results := CheckProxies(t.Context(), nil, false); results != nil {
		t.Errorf("got %v", results)
	}
	other, _ := url.Parse("socks5://[::1]")
	want(t, CheckProxies(t.Context(), []Proxy{{Source: "proxy", URL: other}}, true)[0], OK, "socks5://[::1]")
}
