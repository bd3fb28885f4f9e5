package oauth

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"perigee"
)

// InstalledVariable is the environment variable that names the directory of the installed IDE.
const InstalledVariable = "PERIGEE_IDE"

// lookAgain is how long a search that was of no use stands.
const lookAgain = time.Minute

// InstalledOptions say where the IDE may be.
type InstalledOptions struct {
	Dir    string              // look here and nowhere else; empty: what PERIGEE_IDE says, else where the IDE installs itself
	OS     string              // as runtime.GOOS, which is the default
	Env    func(string) string // nil: os.Getenv
	Now    func() time.Time    // nil: time.Now
	Logger *slog.Logger        // nil: discard
}

// Installed finds the OAuth client in the copy of the IDE that the user has installed. Nobody has said where it stands there,
// so it is known by its form: an id and a secret that stand close together. Nothing is read before somebody asks; what was
// found is remembered, and what was not is looked for again after a minute at the earliest. Secrets stay in memory.
//
// All methods may be called concurrently.
type Installed struct {
	opts InstalledOptions
	turn chan struct{} // who holds its one place may use last
	last finding
}

// NewInstalled returns an Installed. It reads nothing.
func NewInstalled(opts InstalledOptions) *Installed {
	opts.OS = cmp.Or(opts.OS, runtime.GOOS)
	if opts.Env == nil {
		opts.Env = os.Getenv
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Installed{opts: opts, turn: make(chan struct{}, 1)}
}

// An Identity is an OAuth client.
type Identity struct {
	ID     string
	Secret perigee.Secret
	File   string // of the installed IDE in which it was found; empty: it is the configured one
}

// NoClient is the cause of the error that there is no OAuth client to sign in with. It is for who sits at this machine, and
// not for clients of the gateway, whom its directories do not concern.
type NoClient struct {
	Several []string // the ids that there are to choose from; nil: none was found that fits
	Looked  string   // where, and what could not be read
}

func (n *NoClient) Error() string {
	if len(n.Several) > 0 {
		return "several OAuth clients in the installed IDE"
	}
	return "no OAuth client in an installed IDE"
}

// find returns the client with an id, or for an empty one the only client there is.
func (i *Installed) find(ctx context.Context, id string) (Identity, error) {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return Identity{}, ctx.Err()
	}
	who, err := i.last.choose(id)
	if err == nil {
		return who, nil
	}
	if i.opts.Now().Sub(i.last.at) >= lookAgain {
		i.last = finding{left: maxRead}
	}
	looked := false
	// Programs are large: they are read only for what the bundles do not have.
	for i.last.offers(id) == 0 && i.last.stage < len(stages) {
		roots, named := i.roots()
		if err := i.last.read(ctx, roots, named, stages[i.last.stage]); err != nil {
			i.last = finding{} // half a search says nothing
			return Identity{}, err
		}
		looked = true
		i.last.stage++
		i.last.at = i.opts.Now()
	}
	who, err = i.last.choose(id)
	switch {
	case !looked:
	case err == nil:
		i.opts.Logger.InfoContext(ctx, "the OAuth client is that of the installed IDE", "client_id", who.ID, "file", who.File)
	default:
		i.opts.Logger.InfoContext(ctx, "no OAuth client is taken from an installed IDE", "error", err, "looked", i.last.String())
	}
	return who, err
}

// choose returns the one client that fits. It does not guess.
func (f *finding) choose(id string) (Identity, error) {
	var fitting []Identity
	var ids []string
	for _, client := range f.clients {
		if id == "" || client.ID == id {
			fitting = append(fitting, client)
			ids = append(ids, client.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	cause := &NoClient{Several: ids, Looked: f.String()}
	var err *perigee.Error
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) == 0:
		err = misconfigured("there is no OAuth client to sign in with").
			WithNext("set oauth.client_id and oauth.client_secret of this upstream in the configuration, or %s to the directory of an installed Antigravity IDE", InstalledVariable)
	case len(ids) == 1:
		err = misconfigured("the installed IDE has more than one secret that may belong to the OAuth client %s", ids[0]).
			WithNext("set oauth.client_id and oauth.client_secret of this upstream in the configuration")
	default:
		err = misconfigured("the installed IDE has several OAuth clients: %s", strings.Join(ids, ", ")).
			WithNext("choose one by setting oauth.client_id of this upstream in the configuration")
	}
	err.Cause = cause
	return Identity{}, err
}

// offers is how many clients could be meant.
func (f *finding) offers(id string) (n int) {
	for _, client := range f.clients {
		if id == "" || client.ID == id {
			n++
		}
	}
	return n
}

// roots are the directories in which an IDE may be installed, and whether the user has named them.
func (i *Installed) roots() (list []string, named bool) {
	if dir := cmp.Or(i.opts.Dir, i.opts.Env(InstalledVariable)); dir != "" {
		if whole, err := filepath.Abs(dir); err == nil {
			dir = whole
		}
		return []string{dir}, true
	}
	return usualRoots(i.opts.OS, i.opts.Env), false
}

// usualRoots are where the IDE's installers and its users put it. Of those in a home of which nobody says where it is there
// are none.
func usualRoots(system string, env func(string) string) (roots []string) {
	below := func(base string, names ...string) {
		for _, name := range names {
			if base != "" {
				roots = append(roots, filepath.Join(base, name))
			}
		}
	}
	home := env("HOME")
	switch system {
	case "darwin":
		below("/Applications", "Antigravity.app", "Antigravity IDE.app")
		below(home, "Applications/Antigravity.app", "Applications/Antigravity IDE.app")
	case "windows":
		local := env("LOCALAPPDATA")
		if profile := env("USERPROFILE"); local == "" && profile != "" {
			local = filepath.Join(profile, "AppData", "Local")
		}
		below(local, "Programs/Antigravity", "Programs/Antigravity IDE")
		below(env("ProgramFiles"), "Antigravity", "Antigravity IDE")
	default:
		below("/", "usr/share/antigravity", "opt/antigravity", "opt/Antigravity")
		below(home, "Antigravity", ".local/share/Antigravity")
	}
	return roots
}
