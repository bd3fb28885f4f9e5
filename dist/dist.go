// Package dist has the files with which systemd, launchd and Windows run perigee as a service, and
// installs them: perigee service.
//
// A Manager has the files and the commands of one system. They are functions of a Host and Options
// alone, so the tests of all systems run on any of them.
package dist

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

//go:embed perigee.service perigee.socket perigee.sysusers config.yaml user/perigee.service launchd/perigee.plist
var files embed.FS

// read returns a file of this directory.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// A Host is the system on which a service is installed, and the user that installs it.
type Host struct {
	OS         string // as runtime.GOOS
	Home       string
	ConfigHome string // XDG_CONFIG_HOME; empty for the default
	User       string // the name of the user
	UID        int    // 0 is root; of no use on Windows
	SudoUser   string // the user that has called sudo
	SudoHome   string // and its home directory
	Data       string // %ProgramData%
	Root       string // a directory that stands for / in tests; empty otherwise
	// Run runs a command and returns its output. The error has the output of a command that failed.
	Run func(ctx context.Context, command ...string) (string, error)
	// Report is called with each file that changes and each command that changes something.
	Report func(format string, args ...any)
}

// ThisHost returns the Host of this process.
func ThisHost(report func(format string, args ...any)) *Host {
	home, _ := os.UserHomeDir() // checked where it is needed
	h := &Host{OS: runtime.GOOS, Home: home, ConfigHome: os.Getenv("XDG_CONFIG_HOME"), User: os.Getenv("USER"), UID: os.Geteuid(),
		SudoUser: os.Getenv("SUDO_USER"), Data: os.Getenv("ProgramData"), Run: run, Report: report}
	if h.SudoUser != "" {
		h.SudoHome = "/Users/" + h.SudoUser
	}
	return h
}

func run(ctx context.Context, command ...string) (string, error) {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed", command[0])
	case err != nil && text != "":
		return text, fmt.Errorf("%s: %s", strings.Join(command, " "), strings.ReplaceAll(text, "\n", "; "))
	case err != nil:
		return text, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return text, nil
}

// Options select a service.
type Options struct {
	System  bool
	Program string // the path of perigee
	Config  string // --config, as an absolute path; empty for the default
	// Variables are set for the service: those of the caller that select configuration and data.
	Variables []Variable
}

// A Variable is an environment variable.
type Variable struct{ Name, Value string }

// A Manager is a service manager, with the files and the commands of one service.
type Manager struct {
	host *Host
	// Files are written by install and removed by remove.
	Files []File
	// variables is the file of AddVariables, which remove removes as well; empty for a service of the
	// system.
	variables string
	// Packaged is the file that a package has installed, and that is used instead of Files.
	Packaged string
	unusable error    // why the service could not run, if it was installed
	check    []string // a command that fails if the service manager cannot be reached
	reach    string   // how it can be reached, for the error
	unit     string   // its name for users
	logs     string   // the command that shows the log
	doubt    string   // another cause of a failure, for the error
	prepare  [][]string
	create   [][]string // for a service that is not installed
	enable   [][]string // after that, and for one that is; they can be repeated
	start    [][]string // the service that is not running
	restart  [][]string // the service that is running, with other files
	stop     [][]string // the service that is loaded
	disable  [][]string // after stop
	after    [][]string // after the files were removed
	state    func(ctx context.Context) State
	renew    bool
	dirs     []string // that are removed if they are empty
}

// A File is a file of a service.
type File struct {
	Path, Content string
	// Once is true for a file that is the user's after it was created: no install changes it.
	Once bool
	Mode os.FileMode
}

// A State is the state of a service.
type State struct {
	Installed bool
	Outdated  bool // its settings, if they are not in Files, are not those that install would make
	Loaded    bool // it can be stopped
	Enabled   bool
	Running   bool
	PID       int
	Since     time.Time // zero if it is not known
	Detail    string    // the state in the words of the service manager
}

// Logs returns the command that shows the log of the service.
func (m *Manager) Logs() string { return m.logs }

// Unit returns the name of the service for its service manager.
func (m *Manager) Unit() string { return m.unit }

// State asks the service manager.
func (m *Manager) State(ctx context.Context) State { return m.state(ctx) }

// Hidden returns an error with the next step if the files of the service exist, and the service manager,
// which would know its state, cannot be reached.
func (m *Manager) Hidden(ctx context.Context, s State) error {
	if s.Installed || m.Packaged == "" && !slices.ContainsFunc(m.Files, func(f File) bool { return !f.Once && m.host.exists(f.Path) }) {
		return nil
	}
	return m.Reach(ctx)
}

// NewManager returns the service manager of a host. The error is about a host or options without
// one.
func NewManager(h *Host, o Options) (*Manager, error) {
	if o.System && h.UID != 0 && h.OS != "windows" {
		return nil, fmt.Errorf("a service of the system needs root; run sudo %s service, or leave out --system for a service of your account", unitWord(o.Program))
	}
	switch h.OS {
	case "linux":
		return newSystemd(h, o)
	case "darwin":
		return newLaunchd(h, o)
	case "windows":
		return newWindows(h, o)
	}
	return nil, fmt.Errorf("services on %s are not supported; any supervisor can run perigee serve in the foreground", h.OS)
}

func (h *Host) exists(path string) bool {
	_, err := os.Stat(h.Root + path)
	return err == nil
}
