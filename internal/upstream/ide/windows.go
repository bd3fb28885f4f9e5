package ide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/bridge"
)

// limits bound the queries to windows.
type limits struct {
	// for each window, so that a window that is stuck delays asks in another one only this long
	hello time.Duration
	slow  time.Duration // for the window that is to answer
}

var usualLimits = limits{hello: time.Second, slow: 5 * time.Second}

// A window is an open window of the IDE.
type window struct {
	// process ID of the extension host, or of the language server if there is no extension
	pid      int
	name     string            // of the IDE
	folders  []string          // open directories; nil if unknown
	endpoint lsclient.Endpoint // zero if unknown
	server   *discover.Candidate
	// a language server that has not answered in time; nil if there is none
	slow *discover.Prospect

	announced bridge.Window // zero if it has no extension
	hello     *bridge.Hello // nil if it has not answered
	problem   error         // why it has not answered
}

// extension reports whether the extension can reach the agent.
func (w *window) extension() bool { return w.hello != nil && w.hello.Capabilities.LLM }

// hasAgent reports whether the window may have an agent. Windows of other editors have none.
func (w *window) hasAgent() bool {
	return w.server != nil || w.endpoint != (lsclient.Endpoint{}) || w.hello == nil || w.extension()
}

func (w *window) client(logger *slog.Logger) *lsclient.Client {
	return lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(w.endpoint), Logger: logger})
}

// String returns a description of the window for error messages.
func (w *window) String() string {
	where := strings.Join(w.folders, ", ")
	if where == "" && w.server != nil {
		where = w.server.Workspace
	}
	if where == "" {
		where = "no workspace"
	}
	return fmt.Sprintf("%s (%s window, process %d)", where, w.name, w.pid)
}

// openDir returns the open directory that equals or contains a directory, or "" if there is none. A
// language server without an extension reports its directory by the path that the user opened, so
// the path with links counts as well.
func (w *window) openDir(dir place) string {
	var open []os.FileInfo
	for _, folder := range w.folders {
		if info, err := os.Stat(folder); err == nil {
			open = append(open, info)
		}
	}
	byName := w.folders == nil && w.server != nil
	for at := range upwards(dir.real) {
		info, err := os.Stat(at)
		same := func(o os.FileInfo) bool { return err == nil && os.SameFile(info, o) }
		if slices.Contains(w.folders, at) || slices.ContainsFunc(open, same) || byName && w.server.Opens(at) {
			return at
		}
	}
	for at := range upwards(dir.named) {
		if byName && w.server.Opens(at) {
			return filetool.WithoutLinks(at)
		}
	}
	return ""
}

// upwards yields a directory and its ancestors.
func upwards(dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
	}
}

// inside returns the directory of a conversation in the window. If only the name of the window's
// directory is known, it returns that directory.
func (w *window) inside(dir string) string {
	if w.folders != nil || dir == "" {
		return dir
	}
	path, err := resolve(dir)
	if err != nil {
		return dir
	}
	return w.openDir(path)
}

// windows are the windows that were open at one moment. Asks share them; they must not be
// modified.
type windows struct {
	list    []*window
	without []*window // windows of editors without an agent
}

// A search looks for windows. All asks that come while it runs share its result, so that each
// window is queried once.
type search struct {
	found *windows // set when over is closed
	over  chan struct{}
}

// look returns the open windows.
func (u *Upstream) look(ctx context.Context) (*windows, error) {
	u.mu.Lock()
	s := u.running
	if s == nil {
		s = &search{over: make(chan struct{})}
		u.running = s
		go func() {
			// shared by all asks; it takes two seconds at most
			s.found = u.search(context.WithoutCancel(ctx))
			u.mu.Lock()
			u.running = nil
			u.mu.Unlock()
			close(s.over)
		}()
	}
	u.mu.Unlock()
	select {
	case <-s.over:
		return s.found, nil
	case <-ctx.Done():
		return nil, perigee.AsError(ctx.Err())
	}
}

func (u *Upstream) search(ctx context.Context) *windows {
	var announced []*window
	var found []discover.Prospect
	var wait sync.WaitGroup
	wait.Go(func() { announced = u.announcedWindows(ctx) })
	wait.Go(func() {
		var err error
		if found, err = discover.Scan(discover.Options{Home: u.opts.Home, Limit: u.opts.limits.slow}); err != nil {
			u.opts.Logger.Debug("processes not searched", "upstream", u.opts.Name, "error", err)
		}
	})
	wait.Wait()
	found = slices.DeleteFunc(found, func(p discover.Prospect) bool {
		known := func(w *window) bool { return w.owns(p) }
		return p.Headless() || u.opts.Home != "" && p.Home != "" && p.Home != u.opts.Home || slices.ContainsFunc(announced, known)
	})
	servers := u.verify(ctx, found)
	open := &windows{}
	for _, w := range announced {
		servers = w.take(servers)
		if w.hasAgent() {
			open.list = append(open.list, w)
		} else {
			open.without = append(open.without, w)
		}
	}
	// IDEs have one more language server, which belongs to no window. It is used only if there is
	// no other.
	belongs := slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return !s.HasWorkspace() })
	if len(belongs) == 0 && len(open.list) == 0 {
		belongs = servers
	}
	for _, s := range belongs {
		w := &window{pid: s.PID, name: "Antigravity", problem: errNoExtension}
		w.give(s)
		open.list = append(open.list, w)
	}
	return open
}

// A serverKey identifies a process of a language server by its random token.
type serverKey struct {
	pid  int
	csrf perigee.Secret
}

// Secrets returns the CSRF tokens of the language servers that have answered, for a redactor.
func (u *Upstream) Secrets() (list []perigee.Secret) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range u.servers.Keys() {
		list = append(list, key.csrf)
	}
	return list
}

// A server is a language server that was found.
type server struct {
	discover.Candidate
	slow *discover.Prospect // set if it has not answered in time, otherwise nil
}

// verify returns the language servers that answer, and the ones that have not answered in time,
// because their windows are open as well. It queries each process once. If a process no longer
// answers later, the ask is declined.
func (u *Upstream) verify(ctx context.Context, found []discover.Prospect) []server {
	list := make([]*server, len(found))
	var wait sync.WaitGroup
	for i, p := range found {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, u.opts.limits.hello)
			defer cancel()
			if c, ok := u.verified(ctx, p); ok {
				list[i] = &server{Candidate: c}
			} else if ctx.Err() != nil {
				list[i] = &server{Candidate: p.Candidate, slow: &p}
			}
		})
	}
	wait.Wait()
	var servers []server
	for _, s := range list {
		if s != nil {
			servers = append(servers, *s)
		}
	}
	return servers
}

// verified calls a language server, unless it has answered before.
func (u *Upstream) verified(ctx context.Context, p discover.Prospect) (discover.Candidate, bool) {
	key := serverKey{p.PID, p.Endpoint.CSRF}
	u.mu.Lock()
	c, ok := u.servers.Get(key)
	u.mu.Unlock()
	if ok {
		return c, true
	}
	if c, ok = p.Verify(ctx); ok {
		u.mu.Lock()
		u.servers.Put(key, c)
		u.mu.Unlock()
	}
	return c, ok
}

// queryAgain queries a window again, with more time, if it was slow during the search.
func (u *Upstream) queryAgain(ctx context.Context, w *window) *window {
	switch {
	case w.endpoint != (lsclient.Endpoint{}) || w.hello != nil && w.slow == nil:
		return w
	case w.hello == nil && w.announced.PID != 0:
		if again := u.connect(ctx, w.announced, u.opts.limits.slow); again != nil && (again.hello != nil || w.slow == nil) {
			return again
		}
	}
	if w.slow == nil {
		return w
	}
	again := *w
	ctx, cancel := context.WithTimeout(ctx, u.opts.limits.slow)
	defer cancel()
	if c, ok := u.verified(ctx, *w.slow); ok {
		again.give(server{Candidate: c})
	} else if w.announced.PID == 0 {
		again.problem = ask.Declined(perigee.ClassUnavailable, "the language server of %s does not answer", w).WithHint("reload the window")
	}
	return &again
}

var errNoExtension = ask.Declined(perigee.ClassUnavailable, "the window has no extension of perigee")

// announcedWindows connects to the windows with the extension. It skips announcements with a port
// that is closed or that does not accept the token.
func (u *Upstream) announcedWindows(ctx context.Context) []*window {
	dir := u.opts.Bridges
	var err error
	if dir == "" {
		if dir, err = bridge.Dir(); err != nil {
			u.opts.Logger.Debug("windows not searched", "upstream", u.opts.Name, "error", err)
			return nil
		}
	}
	found, problems, err := bridge.Find(ctx, dir)
	if err != nil {
		u.opts.Logger.Warn("windows not searched", "upstream", u.opts.Name, "error", err)
	}
	for _, p := range problems {
		u.opts.Logger.Debug("announcement ignored", "upstream", u.opts.Name, "path", p.Path, "reason", p.Reason)
	}
	list := make([]*window, len(found))
	var wait sync.WaitGroup
	for i, f := range found {
		wait.Go(func() { list[i] = u.connect(ctx, f, u.opts.limits.hello) })
	}
	wait.Wait()
	return slices.DeleteFunc(list, func(w *window) bool { return w == nil })
}

// connect exchanges hello with a window. It returns nil if the window does not answer.
func (u *Upstream) connect(ctx context.Context, f bridge.Window, limit time.Duration) *window {
	w := &window{pid: f.PID, name: cmp.Or(f.IDE.Name, "editor"), folders: slices.Concat([]string{}, f.Workspace), announced: f}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := bridge.Dial(ctx, f, u.opts.Version)
	if err != nil {
		u.opts.Logger.Debug("window does not answer", "upstream", u.opts.Name, "window", f.PID, "error", err)
		w.problem = err
		if !errors.Is(err, bridge.ErrOpen) {
			return nil
		}
		return w
	}
	conn.Close()
	w.hello, w.name, w.folders = &conn.Hello, cmp.Or(conn.Hello.IDE.Name, w.name), slices.Concat([]string{}, conn.Hello.Workspace)
	if ls := conn.Hello.LanguageServer; ls != nil && ls.Port+ls.HTTPSPort > 0 {
		w.endpoint = lsclient.Endpoint{HTTP: ls.Port, HTTPS: ls.HTTPSPort, CSRF: ls.CSRF}
	}
	return w
}

// owns reports whether a language server is the one that the extension reports, by its token.
func (w *window) owns(p discover.Prospect) bool {
	return w.endpoint.CSRF.Equal(p.Endpoint.CSRF.Reveal())
}

// take gives the window its language server if the extension does not report it: the one with a
// workspace that is a directory of the window. It returns the remaining language servers.
func (w *window) take(servers []server) []server {
	at := slices.IndexFunc(servers, func(s server) bool { return slices.ContainsFunc(w.folders, s.Opens) })
	if at < 0 || w.endpoint != (lsclient.Endpoint{}) {
		return servers
	}
	w.give(servers[at])
	return slices.Delete(servers, at, at+1)
}

// give sets the language server of the window.
func (w *window) give(s server) {
	w.server, w.slow = &s.Candidate, s.slow
	if s.slow == nil {
		w.endpoint = s.Endpoint
	}
}

// errWindow is in the chain of an error about the choice of a window.
var errWindow = errors.New("no window was chosen")

// choose returns the window for an ask: the one with the longest open directory that equals or
// contains the workspace; without a workspace, the same for the roots; without a match for them,
// the only window. It never guesses.
func (o *windows) choose(workspace string, roots []string) (*window, error) {
	if len(o.list) == 0 {
		if len(o.without) > 0 {
			return nil, ask.Declined(perigee.ClassUnavailable, "no window of Antigravity is open; other editors have no agent: %s", names(o.without)).
				WithHint("open the workspace in Antigravity")
		}
		return nil, ask.Declined(perigee.ClassUnavailable, "no window of Antigravity is open").WithHint("open the workspace in Antigravity")
	}
	if workspace != "" {
		dir, err := resolve(workspace)
		if err != nil {
			return nil, err
		}
		switch fits := deepest(o.list, dir); {
		case len(fits) == 1:
			return fits[0], nil
		case len(fits) > 1:
			return nil, choiceError(perigee.ClassInvalid, fits, "several windows have "+workspace+" open", "close all but one of them")
		case len(deepest(o.without, dir)) > 0:
			return nil, ask.Declined(perigee.ClassUnavailable, "the window with %s has no agent; open windows of Antigravity: %s", workspace, names(o.list)).
				WithHint("open the workspace in Antigravity")
		}
		return nil, choiceError(perigee.ClassNotFound, o.list, "no window of Antigravity has "+workspace+" open", "open it in Antigravity, or name a workspace that is open")
	}
	var fits []*window
	for _, root := range roots {
		if dir, err := resolve(root); err == nil {
			fits = append(fits, deepest(o.list, dir)...)
		}
	}
	slices.SortFunc(fits, func(a, b *window) int { return a.pid - b.pid })
	fits = slices.Compact(fits)
	if len(fits) == 0 {
		fits = o.list
	}
	if len(fits) > 1 {
		return nil, choiceError(perigee.ClassInvalid, fits, "several windows of Antigravity are open", "name the workspace")
	}
	return fits[0], nil
}

// deepest returns the windows that have the longest directory open that equals or contains dir.
func deepest(list []*window, dir place) []*window {
	var fits []*window
	most := 1
	for _, w := range list {
		switch depth := len(w.openDir(dir)); {
		case depth > most || depth == most && len(fits) == 0:
			most, fits = depth, []*window{w}
		case depth == most:
			fits = append(fits, w)
		}
	}
	return fits
}

func names(list []*window) string {
	texts := make([]string, len(list))
	for i, w := range list {
		texts[i] = w.String()
	}
	return strings.Join(texts, "; ")
}

// choiceError returns an error that lists windows.
func choiceError(class perigee.Class, list []*window, what, hint string) error {
	e := perigee.Errorf(class, "%s: %s", what, names(list)).WithHint("%s", hint)
	e.Cause = errWindow
	return e
}

// A place is a directory that an ask names.
type place struct {
	named string // its absolute path as the ask names it
	real  string // without links, as far as it exists
}

// resolve returns the place of a directory, which may be a file URI.
func resolve(dir string) (place, error) {
	if strings.HasPrefix(dir, "file://") {
		u, err := url.Parse(dir)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return place{}, notAbsolute(dir)
		}
		if dir = u.Path; runtime.GOOS == "windows" {
			dir = filepath.FromSlash(strings.TrimPrefix(dir, "/"))
		}
	}
	if !filepath.IsAbs(dir) {
		return place{}, notAbsolute(dir)
	}
	dir = filepath.Clean(dir)
	return place{named: dir, real: filetool.WithoutLinks(dir)}, nil
}

func notAbsolute(dir string) error {
	return perigee.Errorf(perigee.ClassInvalid, "the workspace %s is not an absolute path", perigee.Clip(dir, 200)).WithHint("name the whole path of a directory")
}
