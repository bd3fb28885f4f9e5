// Package connect points coding agents and editors at perigee: it writes their settings, takes them
// out again, and starts programs with an environment of their own. The table of clients is in
// clients.go.
package connect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"perigee"
	"perigee/internal/lib/edit"
	"perigee/internal/lib/match"
)

// A Machine is where clients keep their settings.
type Machine struct {
	Home   string
	System string // as runtime.GOOS
	Getenv func(string) string
	Dir    string // the working directory
}

// Host returns the machine and the user that the process runs on and as.
func Host() (Machine, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Machine{}, fmt.Errorf("the home directory is unknown: %w", err)
	}
	dir, _ := os.Getwd() // without one there are no project settings
	return Machine{Home: home, System: runtime.GOOS, Getenv: os.Getenv, Dir: dir}, nil
}

// OnPath reports whether a program is on PATH.
func OnPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// under returns the directory in an environment variable, or else one below the home directory.
// root is the directory that links may not lead out of.
func (m Machine) under(variable string, elements ...string) (dir, root string) {
	if dir := m.Getenv(variable); variable != "" && filepath.IsAbs(dir) {
		return dir, dir
	}
	return filepath.Join(append([]string{m.Home}, elements...)...), m.Home
}

// configDir returns the directory below which programs that follow the XDG rules keep their
// settings.
func (m Machine) configDir() (dir, root string) { return m.under("XDG_CONFIG_HOME", ".config") }

// appData returns the directory for settings of desktop programs.
func (m Machine) appData() (dir, root string) {
	switch m.System {
	case "windows":
		return m.under("APPDATA", "AppData", "Roaming")
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support"), m.Home
	}
	return m.configDir()
}

// Placeholder is the key that clients get if perigee needs none. Most of them do not start without
// one.
const Placeholder = "perigee"

// A Target has the address, key and model that clients are configured with.
type Target struct {
	URL      string         // of perigee, without a path
	Key      perigee.Secret // zero if perigee needs none
	Variable string         // an environment variable with the key; empty if there is none
	Model    string         // the client's own default (Client.Model) if empty
	Context  int64          // the size of the model's context window, in tokens; 0 if unknown

	// Answers reports whether perigee answers requests for a model; nil if that is not known.
	Answers func(model string) bool
}

// key returns the key that clients send.
func (t Target) key() string {
	if t.Key.IsZero() {
		return Placeholder
	}
	return t.Key.Reveal()
}

// A Client is a program that perigee can set up.
type Client struct {
	Name    string // as in perigee connect NAME
	Title   string // as its maker writes it
	Program string // the name of its executable; empty if it has none to start
	Install string // the command that installs it, or the page with instructions
	Model   string // the model that it requests unless the user names one
	Agent   string // the prefix of its User-Agent, in lower case; empty if it has none of its own

	// Makers are patterns for the models that its maker has it request. The first of them that
	// perigee has comes before Model.
	Makers []string

	// Advice is the alternative if there is nothing to write. Refused is true if nothing can be
	// done on this machine.
	Advice  func(t Target) string
	Refused bool

	// Cuts is true if its probe limits the answer to 16 tokens, which the client reports as an
	// error if the answer is longer.
	Cuts bool

	// Variables are environment variables that count before the settings that connect writes.
	Variables []string
	// Projects are files in the working directory, or above it, that count before them. A file of
	// variables hides another one.
	Projects []string
	// Managed are files that an administrator of the machine writes, by system; "" is any other
	// system.
	Managed map[string]string
	// Own are settings in the same file that count before them.
	Own []edit.Path
	// Entries are the parts of its settings that the client accepts as a whole only, or that would
	// mean something else without one of their values. Undo does not remove single values from one
	// that connect has added, and changes that a client makes in one that is in a private copy are
	// not returned to the user.
	Entries []edit.Path

	files  func(m Machine, t Target) []File
	launch func(m Machine, t Target) (Launch, error)
	// probe are the arguments before a question that the client answers before it ends, and
	// probeEnv are further variables. probe is nil if the client has no such mode.
	probe, probeEnv []string
}

// A File is a settings file, and the settings for it.
type File struct {
	Path      string
	Format    edit.Format
	Set       []edit.Setting
	IfMissing []edit.Setting // set only if there is no value
	Secret    bool           // the key of perigee is in it
	URL       edit.Path      // the setting with perigee's address; nil if in another file

	root string // links may not lead out of this directory
}

// Files returns the settings files of a client and the settings that connect writes to them. It is
// empty for clients that have none.
func (c *Client) Files(m Machine, t Target) []File {
	if c.files == nil {
		return nil
	}
	return c.files(m, c.complete(t))
}

func (c *Client) complete(t Target) Target {
	if t.Model == "" {
		t.Model = c.Model
	}
	return t
}

// A Launch is how a client is started without its settings being changed.
type Launch struct {
	Env     []string          // NAME=value
	Unset   []string          // variables that would count before these
	Args    []string          // before the user's own
	Files   map[string][]byte // for a private directory, {dir} in Env and Args
	Warning string

	manifest manifest
}

// Launch returns how to start a client.
func (c *Client) Launch(m Machine, t Target) (Launch, error) {
	l, err := c.launch(m, c.complete(t))
	l.manifest.Of = c.owner(m, t)
	for i := range l.manifest.Copies {
		l.manifest.Copies[i].Entries = c.Entries
	}
	return l, err
}

// CanProbe reports whether the client has a mode that asks one question and ends.
func (c *Client) CanProbe() bool { return c.probe != nil }

// Probe returns the arguments and further variables with which the client asks for one word and
// ends. mark is in the question, so that its call can be distinguished from calls of other
// programs.
func (c *Client) Probe(mark string) (args, env []string) {
	return append(slices.Clip(c.probe), "Answer with the single word ok. (test "+mark+")"), c.probeEnv
}

// Names returns the names of all clients, in the order of listings.
func Names() []string {
	var names []string
	for _, c := range Clients() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns a client by its name or by the name of its program.
func Find(name string) (*Client, error) {
	all := Clients()
	at := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if at < 0 {
		at = slices.IndexFunc(all, func(c Client) bool { return c.Program == name && name != "" })
	}
	if at >= 0 {
		return &all[at], nil
	}
	known := Names() // and then programs: of two that are as near, the name of a client is meant
	for _, c := range all {
		if c.Program != "" && !slices.Contains(known, c.Program) {
			known = append(known, c.Program)
		}
	}
	if near := match.Nearest(name, known, 1); len(near) > 0 {
		meant, err := Find(near[0])
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no client %q; did you mean %s?", name, meant.Name)
	}
	return nil, fmt.Errorf("no client %q; perigee connect lists them", name)
}
