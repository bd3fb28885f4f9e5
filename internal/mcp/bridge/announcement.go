// Package bridge reaches the editor windows in which perigee's extension runs. Each window
// announces itself in a file with a port and a token, and answers JSON-RPC over a WebSocket there.
// Find reads the files, Dial connects, List describes the windows.
//
// A connection serves one ask and is closed after it: while there is no ask there is no connection,
// and nothing polls.
package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/store/datadir"
)

// Variable is the environment variable that replaces the directory of announcements.
const Variable = "PERIGEE_BRIDGES"

// version is the version of announcements and of the protocol.
const version = 1

// maxAnnouncement bounds an announcement in bytes, maxToken its token.
const (
	maxAnnouncement = 256 << 10
	maxToken        = 4096
)

// refusedTime bounds the check of the port of a process that has ended.
const refusedTime = time.Second

// Dir returns the directory of announcements: $PERIGEE_BRIDGES, or perigee/bridges in the user's
// directory for configuration. The extension uses the same rule.
func Dir() (string, error) {
	home, _ := os.UserHomeDir()
	dir := dirOn(runtime.GOOS, os.Getenv, home)
	if dir == "" {
		return "", perigee.Errorf(perigee.ClassUnavailable, "there is no directory for announcements of editor windows: the home directory is unknown").
			WithHint("set HOME, or %s to the directory that the extension uses", Variable)
	}
	return dir, nil
}

func dirOn(system string, lookup func(string) string, home string) string {
	if dir := lookup(Variable); dir != "" {
		return dir
	}
	below := func(dir string, names ...string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(append([]string{dir}, names...)...)
	}
	config := below(home, ".config")
	switch system {
	case "windows":
		config = cmp.Or(lookup("APPDATA"), below(home, "AppData", "Roaming"))
	case "darwin", "ios":
		config = below(home, "Library", "Application Support")
	default:
		if xdg := lookup("XDG_CONFIG_HOME"); filepath.IsAbs(xdg) {
			config = xdg
		}
	}
	return below(config, "perigee", "bridges")
}

// A Window is an editor window that has announced itself.
type Window struct {
	PID       int // of the extension host
	IDE       IDE
	Workspace []string // the open directories
	Port      int
	Token     perigee.Secret
}

// An IDE is the editor of a window.
type IDE struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// A Problem is a file that is not used, with the reason. It is not removed.
type Problem struct {
	Path   string
	Reason string
}

func (p Problem) String() string { return fmt.Sprintf("%s is ignored: %s", p.Path, p.Reason) }

var fileName = lazyregexp.New(`^([1-9][0-9]{0,9})\.json$`)

// Find reads the announcements in a directory, in the order of their process IDs. It removes an
// announcement if its process has ended and its port refuses connections: a process in a container
// cannot be seen from here, so the process alone is not enough. Files that are not announcements
// of this user are problems. A directory that does not exist has no windows.
func Find(ctx context.Context, dir string) ([]Window, []Problem, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, perigee.Errorf(perigee.ClassUnavailable, "reading the announcements of editor windows: %w", err).
			WithHint("check the directory, or set %s to another one", Variable)
	}
	var windows []Window
	var problems []Problem
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue // a file that is being written
		}
		path := filepath.Join(dir, entry.Name())
		window, info, err := read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the window was closed in between
		case err != nil:
			problems = append(problems, Problem{path, err.Error()})
		case window.stale(ctx):
			if err := remove(path, window.PID, info); err != nil {
				problems = append(problems, Problem{path, "its window is gone, and it cannot be removed: " + reasonOf(err)})
			}
		default:
			windows = append(windows, window)
		}
	}
	slices.SortFunc(windows, func(a, b Window) int { return cmp.Compare(a.PID, b.PID) })
	return windows, problems, nil
}

// Secrets returns the tokens of all announcements, for a redactor. It removes nothing and makes no
// connections.
func Secrets(dir string) []perigee.Secret {
	paths, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var secrets []perigee.Secret
	for _, entry := range paths {
		if window, _, err := read(filepath.Join(dir, entry.Name())); err == nil {
			secrets = append(secrets, window.Token)
		}
	}
	return secrets
}

// read reads an announcement. The file has to be a regular one of this user that no other user can
// read.
func read(path string) (Window, fs.FileInfo, error) {
	if !fileName().MatchString(filepath.Base(path)) {
		return Window{}, nil, errors.New("its name is not that of an announcement, a process ID and .json")
	}
	info, err := os.Lstat(path)
	if err != nil {
		return Window{}, nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return Window{}, nil, errors.New("it is not a regular file")
	case !datadir.Owned(info):
		return Window{}, nil, errors.New("it belongs to another user")
	case runtime.GOOS != "windows" && info.Mode().Perm() != 0o600:
		return Window{}, nil, fmt.Errorf("its mode is %04o and not 0600", info.Mode().Perm())
	case info.Size() > maxAnnouncement:
		return Window{}, nil, fmt.Errorf("it has more than %d KiB", maxAnnouncement>>10)
	}
	data, err := readSame(path, info)
	if err != nil {
		return Window{}, nil, err
	}
	window, err := parse(data)
	if err == nil && strconv.Itoa(window.PID)+".json" != filepath.Base(path) {
		err = fmt.Errorf("it is of process %d", window.PID)
	}
	return window, info, err
}

// readSame reads the file that was checked. O_NONBLOCK keeps it from blocking if a pipe has
// replaced the file.
func readSame(path string, info fs.FileInfo) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New(reasonOf(err))
	}
	defer func() { _ = file.Close() }()
	opened, err := file.Stat()
	if err != nil {
		return nil, errors.New(reasonOf(err))
	}
	if !os.SameFile(info, opened) {
		return nil, errors.New("it was replaced while it was read")
	}
	data, err := io.ReadAll(io.LimitReader(file, maxAnnouncement+1))
	if err != nil {
		return nil, errors.New(reasonOf(err))
	}
	return data, nil
}

// reasonOf returns the text of a system error without the path, which the message has already.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// parse reads the content of an announcement. Errors do not quote it, because it has the token.
func parse(data []byte) (Window, error) {
	var a struct {
		Version   int      `json:"version"`
		Port      int      `json:"port"`
		Token     string   `json:"token"`
		Workspace []string `json:"workspace"`
		IDE       IDE      `json:"ide"`
		PID       int      `json:"pid"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return Window{}, fmt.Errorf("its member %s is of another type", wrong.Field)
		}
		return Window{}, errors.New("it is no JSON object")
	}
	switch {
	case a.Version != version:
		return Window{}, fmt.Errorf("it has version %d; this perigee reads version %d", a.Version, version)
	case a.Port < 1 || a.Port > 65535:
		return Window{}, errors.New("it has no valid port")
	case a.PID < 1:
		return Window{}, errors.New("it has no valid process ID")
	case a.Token == "" || len(a.Token) > maxToken || strings.ContainsFunc(a.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Window{}, errors.New("it has no valid token")
	}
	return Window{PID: a.PID, IDE: a.IDE, Workspace: a.Workspace, Port: a.Port, Token: perigee.NewSecret(a.Token)}, nil
}

// stale reports whether the window is certainly closed.
func (w Window) stale(ctx context.Context) bool {
	if alive(w.PID) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, refusedTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", w.address())
	if err == nil {
		_ = conn.Close()
		return false
	}
	return refused(err)
}

func (w Window) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(w.Port)) }

// remove removes the file that was read. If a window with the same process ID has announced itself
// since, its process is alive, or the file is another one.
func remove(path string, pid int, info fs.FileInfo) error {
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if alive(pid) || !os.SameFile(info, now) || !now.ModTime().Equal(info.ModTime()) {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
