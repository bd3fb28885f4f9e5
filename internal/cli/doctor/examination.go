package doctor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/trustinstall"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/intercept/redirect"
	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/wire"
	"perigee/internal/mcp/bridge"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// An examination is one run of the command.
type examination struct {
	env     *cli.Env
	machine truststore.Machine
	offline bool
	limit   time.Duration

	loaded *config.Loaded // never nil: the readable part of the configuration, or else defaults
	valid  bool           // the configuration has no problems
	daemon Daemon
	remote *remote.Client // nil if no daemon is running

	blocked *Result // why the data directory cannot be used; nil if it can
}

// run runs all checks. Checks that call providers come after checks of this machine: without a
// daemon, accounts are checked only if data directory and database are in order, because opening
// the database for writing changes permissions and its schema.
func (e *examination) run(ctx context.Context) []Result {
	progress := e.env.Progress(ctx)
	defer progress.Close()
	waiting := func(names []string) { progress.Update("waiting for %s", strings.Join(names, ", ")) }
	progress.Step("checking this machine")
	results := []Result{e.readConfig(ctx)}
	e.reachDaemon(ctx)
	local := e.local()
	// The data directory is checked first, before SQLite creates files in it.
	results = append(results, runChecks(ctx, local[:1], e.limit, waiting)...)
	if cause := results[len(results)-1]; cause.Blocks {
		e.blocked = &cause
		local = withoutData(local, cause)
	}
	results = append(results, runChecks(ctx, local[1:], e.limit, waiting)...)
	if !e.offline {
		progress.Step("asking upstreams and accounts")
	}
	checks, end := e.sources(ctx, results)
	defer end()
	results = append(results, runChecks(ctx, checks, e.limit, waiting)...)
	secrets := redact.New(e.loaded.Config.Secrets()...)
	for i := range results {
		results[i].Detail = e.env.Hint(clean(secrets, results[i].Detail))
		results[i].Fix = e.env.Hint(secrets.Text(results[i].Fix))
	}
	return Sorted(results)
}

// clean removes secrets from a text, also those that only their form shows. "NAME=…" stays, which
// is how commands leave a value to the reader.
func clean(known *redact.Redactor, text string) string {
	const left, kept = "=…", "\x00"
	text = redact.Credentials(strings.ReplaceAll(known.Text(text), left, kept))
	return strings.ReplaceAll(text, kept, left)
}

// readConfig reads the configuration. With problems, the other checks use the values that could be
// read, or defaults.
func (e *examination) readConfig(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	src := config.Sources{Path: e.env.Config, Models: simulator.Models(), AnswersOllama: command.AnswersOllama}
	loaded, borrowed, problems := command.Salvage(ctx, e.env, src)
	e.loaded, e.valid = loaded, problems == nil
	loaded.Config.DataDir = absolute(loaded.Config.DataDir) // so that fixes work in any directory
	return Config(loaded, problems, borrowed)
}

// reachDaemon reads the configuration and state of the data directory's daemon.
func (e *examination) reachDaemon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	cfg := e.loaded.Config
	status, err := daemon.Status(ctx, cfg)
	if errors.Is(err, daemon.ErrNotRunning) {
		_, port, _ := net.SplitHostPort(cfg.Listen)
		listener := remote.ListenerOf(port)
		e.daemon.Owner = Owner{PID: listener.PID, Name: listener.Name}
		if other := command.FindElsewhere(ctx, cfg); other != nil {
			e.daemon.Owner.Why, e.daemon.Owner.Restart = other.String(), other.Restart()
		}
		return
	}
	e.daemon.PID, e.daemon.Address = datadir.Holder(cfg.DataDir), cfg.Listen
	if process, failed := remote.Find(context.WithoutCancel(ctx), cfg.DataDir); failed == nil && process != nil {
		e.daemon.PID = process.PID
		if process.Unit.Name != "" {
			e.daemon.Restart = process.Unit.Systemctl("restart")
		}
		process.Close()
	}
	if err != nil {
		if e.daemon.Err = err; errors.Is(err, context.DeadlineExceeded) {
			e.daemon.Silent = min(e.limit, remote.Patience)
		}
		return
	}
	if !e.valid { // the check of the configuration reports it, and a restart would fail
		status.Refused, status.Pending = "", nil
	}
	e.daemon.Status, e.remote = &status, remote.New(daemon.SocketPath(cfg))
	e.daemon.Stale, e.daemon.NotCompared = command.StaleEnvironment(ctx, e.loaded, status)
}

// local returns the checks of this machine.
func (e *examination) local() []Check {
	cfg := e.loaded.Config
	home, _ := os.UserHomeDir()
	one := func(name string, run func(ctx context.Context) Result) Check {
		return Check{Name: name, Run: func(ctx context.Context) []Result { return []Result{run(ctx)} }}
	}
	checks := []Check{
		one(NameDataDir, func(ctx context.Context) Result {
			return DataDir(ctx, cfg.DataDir, e.loaded.Origins["data_dir"])
		}),
		one(NameDisk, func(ctx context.Context) Result {
			return DiskSpace(ctx, cfg.DataDir, int64(cfg.Traces.Keep), atomicfile.DiskOf)
		}),
		one(NameStore, func(ctx context.Context) Result {
			return e.daemon.migrating(Store(ctx, daemon.StoreOptions(cfg), e.offline))
		}),
		one(NameClock, e.clock),
		one(NameListen, func(ctx context.Context) Result { return Listen(ctx, cfg.Listen, e.daemon) }),
		{Name: NameService, Run: func(ctx context.Context) []Result {
			return HostService(home, e.offline).Check(ctx, e.remote != nil)
		}},
		{Name: NameProxy, Run: func(ctx context.Context) []Result {
			return CheckProxies(ctx, Proxies(e.loaded), e.offline)
		}},
		one(NameLangserver, e.langservers),
		one(NameCA, e.ca),
		one(NameRedirect, e.redirect),
		one(NameBridge, func(ctx context.Context) Result {
			dir, err := bridge.Dir()
			if err != nil {
				return Result{Check: NameBridge, Status: OK, Detail: err.Error()}
			}
			return Bridge(ctx, dir, e.env.Program.Version, e.offline)
		}),
		{Name: NameClient + "*", Run: e.clients},
		{Name: NameKey + "*", Run: Budgets{Loaded: e.loaded, Spent: e.spent, Now: time.Now()}.Check},
	}
	if e.remote != nil {
		path := e.loaded.Path
		if path != "" {
			path = absolute(path)
		}
		checks = append(checks, one(NameDaemon, func(context.Context) Result {
			return Version(e.env.Program.Version, path, e.daemon)
		}))
	}
	return checks
}

// withoutData replaces the checks of the files in the data directory, which cannot be used.
func withoutData(checks []Check, cause Result) []Check {
	needs := []string{NameDisk, NameStore, NameListen, NameDaemon, NameLangserver, NameCA}
	var list []Check
	for _, c := range checks {
		switch {
		case c.Name == NameClient+"*" || c.Name == NameKey+"*":
			continue // a line for each client and key would have no information
		case slices.Contains(needs, c.Name):
			c.Run = func(context.Context) []Result { return []Result{NotChecked(c.Name, cause)} }
		}
		list = append(list, c)
	}
	return list
}

// spent returns the usage of client keys since a time: from the daemon, or else from the store.
func (e *examination) spent(ctx context.Context, since time.Time) (map[string]perigee.Spent, error) {
	cfg := e.loaded.Config
	if e.remote == nil && (e.daemon.Err != nil || e.offline && !cfg.Store.URL.IsZero()) {
		return nil, errors.ErrUnsupported
	}
	q := perigee.UsageQuery{By: perigee.ByKey, Since: since}
	rows, err := command.Usage(ctx, e.env, cfg, q, "")
	keys := map[string]perigee.Spent{}
	for _, row := range rows {
		keys[row.Group] = row.Spent()
	}
	return keys, err
}

// clock compares the clock with the first upstream that is on the network.
func (e *examination) clock(ctx context.Context) Result {
	c := Clock{DataDir: e.loaded.Config.DataDir, Now: time.Now}
	for _, u := range e.loaded.Config.Upstreams {
		if address := UpstreamOf(u, e.loaded).URL; address != "" && !e.offline {
			transport, err := wire.NewProxyTransport(u.Proxy)
			if err != nil {
				continue
			}
			transport.Configure(func(t *http.Transport) { t.DisableKeepAlives = true })
			c.URL, c.Client = address, wire.NewClient(transport)
			break
		}
	}
	return c.Check(ctx)
}

func (e *examination) langservers(ctx context.Context) Result {
	cfg := e.loaded.Config
	var rows []perigee.LangserverRow
	if e.remote != nil {
		rows, _ = daemon.Langservers(ctx, cfg)
	}
	var list []Langserver
	for _, u := range cfg.Upstreams {
		if u.Kind != config.KindLangserver {
			continue
		}
		l := Langserver{Upstream: u, Config: e.loaded.Path, Cache: filepath.Join(cfg.DataDir, "langserver", "probes")}
		l.Command, l.Err = daemon.LangserverCommand(u)
		if i := slices.IndexFunc(rows, func(r perigee.LangserverRow) bool { return r.Upstream == u.Name }); i >= 0 {
			l.Row = &rows[i]
		}
		list = append(list, l)
	}
	return Langservers(list)
}

func (e *examination) ca(ctx context.Context) Result {
	cfg := e.loaded.Config
	hosts, _ := netguard.ParseHosts(cfg.Interception.Hosts) // a problem of the configuration
	return CA(ctx, trustinstall.CA{Dir: filepath.Join(cfg.DataDir, "ca"), Hosts: hosts, Machine: e.machine, Running: e.remote != nil}, time.Now())
}

func (e *examination) redirect(ctx context.Context) Result {
	status, err := redirect.Installed(ctx)
	wanted := slices.ContainsFunc(e.loaded.Config.Upstreams, func(u config.Upstream) bool { return u.Intercept == "transparent" })
	return Redirect{Status: status, Err: err, Wanted: wanted, Running: e.remote != nil}.Check()
}

// discard is for the log of package daemon during checks.
var discard = slog.New(slog.DiscardHandler)
