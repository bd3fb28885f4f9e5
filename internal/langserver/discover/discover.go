// Package discover finds language servers that a running IDE has started: by their processes, and
// by the files in which persistent ones announce their ports. Every candidate has answered a call
// with its token before it is returned. The package starts and stops nothing.
package discover

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/lsclient"
)

// A Candidate is a language server that answers.
type Candidate struct {
	PID       int
	Endpoint  lsclient.Endpoint
	Workspace string // the workspace_id; empty if there is none, or if only its hash is known
	Version   string // empty if unknown
	Home      string // the home directory of its process, on Linux only; empty if unknown

	hash string // of the workspace_id, in the name of the file that announced it
}

// Options configure a search.
type Options struct {
	Home string // directory that contains .gemini; empty for the home directory of the user
	Proc string // directory with the processes, on Linux only; empty for /proc
	// time limit of the calls to one process, because a port for another protocol may never
	// answer; 2 s if 0
	Limit time.Duration
}

// errNoProcesses means that processes cannot be listed on this system.
var errNoProcesses = errors.New("processes cannot be searched on this system")

// Find returns the language servers of this user that answer, ordered by process ID. It leaves out
// language servers that perigee has started, because they belong to no IDE.
func Find(ctx context.Context, options Options) ([]Candidate, error) {
	found, err := Scan(options)
	if err != nil && !errors.Is(err, errNoProcesses) {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p Prospect) bool { return p.Headless() })
	candidates := make([]Candidate, len(found))
	answers := make([]bool, len(found))
	var wait sync.WaitGroup
	for i, p := range found {
		wait.Go(func() { candidates[i], answers[i] = p.Verify(ctx) })
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, perigee.AsError(err)
	}
	at := 0
	candidates = slices.DeleteFunc(candidates, func(Candidate) bool { at++; return !answers[at-1] })
	if len(candidates) == 0 && err != nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "no file announces a language server, and %w", err).
			WithHint("let perigee start one: set attach: false")
	}
	return candidates, nil
}

// Scan returns the possible language servers of this user, ordered by process ID, and calls none
// of them. If processes cannot be searched, it returns that error together with the announced
// ones.
func Scan(options Options) ([]Prospect, error) {
	if options.Home == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, perigee.Errorf(perigee.ClassUnavailable, "searching for a language server: %w", err)
		}
		options.Home = home
	}
	options.Proc, options.Limit = cmp.Or(options.Proc, "/proc"), cmp.Or(options.Limit, 2*time.Second)
	found, err := processes(options.Proc)
	if err != nil && !errors.Is(err, errNoProcesses) {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "searching for a language server: %w", err)
	}
	for _, announced := range announcements(options.Home) {
		found = merge(found, announced)
	}
	for i := range found {
		found[i].proc, found[i].limit = options.Proc, options.Limit
	}
	slices.SortFunc(found, func(a, b Prospect) int { return cmp.Compare(a.PID, b.PID) })
	return found, err
}

// A Prospect is a possible language server, by its process or its file. Its Endpoint has the
// token, and no ports before Verify.
type Prospect struct {
	Candidate
	ports   []int // that a file names
	process bool  // found as a process, with the ports on which it listens
	lsp     int   // the port of such a process that uses another protocol
	proc    string
	limit   time.Duration
}

// merge adds a prospect, or completes the one with the same process.
func merge(found []Prospect, p Prospect) []Prospect {
	at := slices.IndexFunc(found, func(f Prospect) bool { return f.PID == p.PID })
	if at < 0 {
		return append(found, p)
	}
	found[at].Version = cmp.Or(found[at].Version, p.Version)
	return found
}

// Verify calls each port, with and without TLS, and returns the candidate with the ports that
// answer as a language server does. It returns false if none does. It does not wait for further
// ports when it has found both.
func (p Prospect) Verify(ctx context.Context) (Candidate, bool) {
	return p.verify(ctx, openPorts(p), func(ctx context.Context, endpoint lsclient.Endpoint) error {
		return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(endpoint)}).Heartbeat(ctx)
	})
}

// verify is Verify with the ports on which the process listens, and the call.
func (p Prospect) verify(ctx context.Context, ports []int, call func(context.Context, lsclient.Endpoint) error) (Candidate, bool) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	c := p.Candidate
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, port := range ports { // any of them may be for HTTP or HTTPS
		for _, endpoint := range []lsclient.Endpoint{{HTTP: port, CSRF: c.Endpoint.CSRF}, {HTTPS: port, CSRF: c.Endpoint.CSRF}} {
			wait.Go(func() {
				if call(ctx, endpoint) != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				c.Endpoint.HTTP = cmp.Or(c.Endpoint.HTTP, endpoint.HTTP)
				c.Endpoint.HTTPS = cmp.Or(c.Endpoint.HTTPS, endpoint.HTTPS)
				if c.Endpoint.HTTP != 0 && c.Endpoint.HTTPS != 0 {
					cancel()
				}
			})
		}
	}
	wait.Wait()
	return c, c.Endpoint.HTTP != 0 || c.Endpoint.HTTPS != 0
}

// isLanguageServer reports whether a command line belongs to a language server with a token: by
// the name of its program, which has a different suffix on each system, or as the stand-in.
func isLanguageServer(args []string) bool {
	if len(args) == 0 {
		return false
	}
	name := args[0][strings.LastIndexAny(args[0], `/\`)+1:]
	standIn := len(args) > 2 && args[1] == "simulate" && args[2] == "langserver"
	return (name == "language_server" || strings.HasPrefix(name, "language_server_") || strings.HasPrefix(name, "language_server.") || standIn) &&
		flagValue(args, "csrf_token") != ""
}

// flagValue returns the value of a flag as the flag package of Go reads it: -name value,
// --name=value.
func flagValue(args []string, name string) string {
	for i, arg := range args {
		flag, dashed := strings.CutPrefix(arg, "-")
		if !dashed {
			continue
		}
		flag, value, assigned := strings.Cut(strings.TrimPrefix(flag, "-"), "=")
		switch {
		case flag != name:
		case assigned:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// fromCommand returns the prospect of a command line.
func fromCommand(pid int, args []string) Prospect {
	return Prospect{Candidate: Candidate{
		PID: pid, Endpoint: lsclient.Endpoint{CSRF: perigee.NewSecret(flagValue(args, "csrf_token"))}, Workspace: flagValue(args, "workspace_id"),
		Version: flagValue(args, "override_ide_version"),
	}}
}
