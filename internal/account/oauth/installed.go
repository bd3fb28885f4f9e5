package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// InstalledVariable is the environment variable that names the directory of the installed IDE.
const InstalledVariable = "PERIGEE_IDE"

// Bounds of a search. The extension has a handful of scripts with a few megabytes each.
const (
	searchInterval = time.Minute // a search that does not find the client is not repeated earlier
	maxScripts     = 64
	maxRead        = 64 << 20 // bytes of one installation
	maxMarks       = 64       // ids and secrets of one script
	maxDistance    = 4 << 10  // bytes between an id and a secret that belong together
)

// Installed finds the OAuth client of the IDE that the user has installed: an id and a secret close
// together in a script of the IDE's own extension. It reads nothing before a client is needed, and
// holds the result in memory only. It may be used concurrently.
type Installed struct {
	dir    string
	logger *slog.Logger

	mu       sync.Mutex
	at       time.Time // of the last search
	clients  []Identity
	searched string // where the last search looked, and which files it could not read
}

// NewInstalled returns an Installed that searches dir alone; if dir is empty, the directory in
// PERIGEE_IDE; if that is empty, the directories where the IDE installs itself.
func NewInstalled(dir string, logger *slog.Logger) *Installed {
	return &Installed{dir: dir, logger: logger}
}

// find returns the client with an id, or for an empty id the only client there is.
func (i *Installed) find(ctx context.Context, id string) (Identity, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	client, err := i.choose(id)
	if err == nil || !i.at.IsZero() && time.Since(i.at) < searchInterval {
		return client, err
	}
	i.search()
	if client, err = i.choose(id); err != nil {
		i.logger.InfoContext(ctx, "no OAuth client found in an installed IDE", "error", err, "looked", i.searched)
	} else {
		i.logger.InfoContext(ctx, "using the OAuth client of the installed IDE", "client_id", client.ID, "file", client.File)
	}
	return client, err
}

// Secrets returns the secrets of the clients that were found, for a redactor.
func (i *Installed) Secrets() (list []perigee.Secret) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.clients {
		list = append(list, c.Secret)
	}
	return list
}

// choose returns the one client that fits. If several do, it is an error.
func (i *Installed) choose(id string) (Identity, error) {
	fitting := slices.DeleteFunc(slices.Clone(i.clients), func(c Identity) bool { return id != "" && c.ID != id })
	if len(fitting) == 1 {
		return fitting[0], nil
	}
	var ids []string
	for _, c := range fitting {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	err := misconfigured("there is no OAuth client to sign in with").WithHint("set oauth.client_id and oauth.client_secret of this "+
		"upstream in the configuration, or %s to the directory of an installed Antigravity IDE", InstalledVariable)
	if len(ids) > 0 {
		err = misconfigured("the installed IDE has several OAuth clients: %s", strings.Join(ids, ", ")).WithHint("choose one by setting " +
			"oauth.client_id of this upstream in the configuration, with oauth.client_secret where an id may have several")
	}
	err.Cause = &NoClient{Several: ids, Searched: i.searched}
	return Identity{}, err
}

// search reads the extension's scripts in all installations.
func (i *Installed) search() {
	dirs, named := usualDirs(runtime.GOOS, os.Getenv), false
	if dir := cmp.Or(i.dir, os.Getenv(InstalledVariable)); dir != "" {
		if absolute, err := filepath.Abs(dir); err == nil {
			dir = absolute
		}
		dirs, named = []string{dir}, true
	}
	var absent, notes []string
	i.clients = nil
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && !named {
			err = checkOwner(info)
		}
		if err == nil {
			err = i.read(dir)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			absent = append(absent, dir)
		case err != nil:
			notes = append(notes, fmt.Sprintf("not all of %s can be read: %v", dir, err))
		default:
			notes = append(notes, "scripts read in "+dir)
		}
	}
	if len(absent) > 0 {
		notes = append(notes, "no installation in "+strings.Join(absent, ", "))
	}
	i.at, i.searched = time.Now(), strings.Join(notes, "; ")
}

// usualDirs returns where the IDE's installers and its users put it. Directories below a variable
// that is not set are left out.
func usualDirs(system string, env func(string) string) (dirs []string) {
	below := func(base string, names ...string) {
		for _, name := range names {
			if base != "" {
				dirs = append(dirs, filepath.Join(base, name))
			}
		}
	}
	switch system {
	case "darwin":
		below("/Applications", "Antigravity.app", "Antigravity IDE.app")
		below(env("HOME"), "Applications/Antigravity.app", "Applications/Antigravity IDE.app")
	case "windows":
		below(env("LOCALAPPDATA"), "Programs/Antigravity", "Programs/Antigravity IDE")
		below(env("ProgramFiles"), "Antigravity", "Antigravity IDE")
	default:
		below("/", "usr/share/antigravity", "opt/antigravity", "opt/Antigravity")
		below(env("HOME"), "Antigravity", ".local/share/Antigravity")
	}
	return dirs
}

// read adds the clients in the scripts of one installation, which is laid out like Linux's and
// Windows's, like macOS's, or is a part of one. Links that lead out of it are not followed. The
// error is about scripts that were left out.
func (i *Installed) read(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var names []string
	for _, base := range []string{"resources/app", "Contents/Resources/app", "app", "."} {
		scripts, _ := fs.Glob(root.FS(), filepath.ToSlash(filepath.Join(base, "extensions/antigravity/dist/*.js")))
		names = append(names, scripts...)
	}
	left := int64(maxRead)
	for _, name := range names[:min(len(names), maxScripts)] {
		var script []byte
		info, failed := root.Stat(name) // before opening, which would wait for the writer of a pipe
		if failed == nil && (!info.Mode().IsRegular() || info.Size() > left) {
			failed = errors.New("not a regular file, or too large")
		}
		if failed == nil {
			left -= info.Size()
			script, failed = root.ReadFile(name)
		}
		if failed != nil {
			// Not wrapped: a script that does not exist does not mean that the installation is
			// missing.
			err = errors.Join(err, fmt.Errorf("%q: %v", name, failed))
		}
		for _, c := range clientsIn(script) {
			c.File = filepath.Join(dir, filepath.FromSlash(name))
			if !slices.ContainsFunc(i.clients, func(k Identity) bool { return k.ID == c.ID && k.Secret == c.Secret }) {
				i.clients = append(i.clients, c)
			}
		}
	}
	return err
}

// markPattern is the form of the provider's OAuth clients: ids, and words that begin like secrets.
var markPattern = lazyregexp.New(`\b[0-9]{6,20}-[a-z0-9]{1,64}\.apps\.googleusercontent\.com|GOCSPX-[A-Za-z0-9_-]+`)

const secretPrefix, secretLength = "GOCSPX-", 35

// clientsIn returns the ids and secrets of a script that belong together. In a list of clients they
// alternate, and each secret belongs to the id next to it. In any other order it may belong to
// every id nearby, and all these pairs are returned.
func clientsIn(script []byte) (clients []Identity) {
	text := func(at []int) string { return string(script[at[0]:at[1]]) }
	isSecret := func(at []int) bool { return strings.HasPrefix(text(at), secretPrefix) }
	marks := slices.DeleteFunc(markPattern().FindAllIndex(script, maxMarks), func(at []int) bool {
		return isSecret(at) && at[1]-at[0] != secretLength
	})
	for len(marks) > 0 {
		n, alternate := 1, true
		for ; n < len(marks) && marks[n][0]-marks[n-1][1] <= maxDistance; n++ {
			alternate = alternate && isSecret(marks[n]) != isSecret(marks[n-1])
		}
		for a, id := range marks[:n] {
			for b, secret := range marks[:n] {
				if !isSecret(id) && isSecret(secret) && (b == a^1 || !alternate || n%2 != 0) {
					clients = append(clients, Identity{ID: text(id), Secret: perigee.NewSecret(text(secret))})
				}
			}
		}
		marks = marks[n:]
	}
	return clients
}
