package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
)

// sources returns the checks of upstreams and accounts, and a function to call after them. before
// are results of earlier checks.
func (e *examination) sources(ctx context.Context, before []Result) (checks []Check, end func()) {
	if e.blocked != nil {
		for _, u := range e.upstreams() {
			name := NameUpstream + u.Name
			checks = append(checks, Check{Name: name, Run: func(context.Context) []Result {
				return []Result{NotChecked(name, *e.blocked)}
			}})
		}
		return checks, func() {}
	}
	check, accounts, end := e.askers(ctx, before)
	accounts.Now = time.Now()
	for _, u := range e.upstreams() {
		checks = append(checks, Check{Name: NameUpstream + u.Name, Run: func(ctx context.Context) []Result {
			if u.Builtin {
				return []Result{u.Check(ctx, nil)}
			}
			return []Result{check(ctx, u)}
		}})
	}
	return append(checks, Check{Name: NameAccount + "*", Run: accounts.Check}), end
}

// upstreams lists the upstreams of the daemon, which may have another configuration than the file,
// or else the upstreams of the configuration.
func (e *examination) upstreams() (list []Upstream) {
	for _, u := range e.loaded.Config.Upstreams {
		if u.Name != "" {
			list = append(list, UpstreamOf(u, e.loaded))
		}
	}
	status := e.daemon.Status
	switch {
	case status != nil && status.Simulated, status == nil && len(list) == 0 && e.valid:
		simulator := Upstream{Name: daemon.SimulatorName, Kind: config.KindSimulator, Config: e.loaded.Path, Builtin: true, Daemon: e.daemon}
		if len(list) > 0 {
			simulator.Daemon.Stale = cmp.Or(e.daemon.Stale, "the daemon does not use the upstreams in "+e.loaded.Path)
		}
		return []Upstream{simulator}
	case status == nil:
		return list
	}
	var running []Upstream
	for _, text := range status.Upstreams { // "studio (gemini, 2 keys)" or, of the kind of its name, "openai (1 key)"
		name, rest, _ := strings.Cut(text, " (")
		kind, _, _ := strings.Cut(strings.TrimSuffix(rest, ")"), ",")
		if config.KindOf(kind).Name == "" {
			kind = name
		}
		u := Upstream{Name: name, Kind: kind}
		if i := slices.IndexFunc(list, func(known Upstream) bool { return known.Name == name }); i >= 0 {
			u = list[i]
		}
		running = append(running, u)
	}
	return running
}

// An upstreamCheck checks one upstream.
type upstreamCheck func(ctx context.Context, u Upstream) Result

// askers chooses the source of the checks: the daemon, the providers themselves, or only the
// database.
func (e *examination) askers(ctx context.Context, before []Result) (upstreamCheck, Accounts, func()) {
	stored := func(ctx context.Context) ([]perigee.AccountRow, error) {
		if e.offline && !e.loaded.Config.Store.URL.IsZero() {
			return nil, nil
		}
		return StoredAccounts(ctx, daemon.StoreOptions(e.loaded.Config))
	}
	nothing := func() {}
	problem := firstProblem(before)
	switch {
	case e.remote != nil && e.offline:
		skip := func(_ context.Context, u Upstream) Result {
			return u.WithKeyProblems(u.Skipped("--offline"), e.daemon.Status.Keys)
		}
		return skip, Accounts{List: e.remote.Accounts, Reason: "--offline"}, nothing
	case e.remote != nil:
		check := func(ctx context.Context, u Upstream) Result {
			result := u.Check(ctx, freshModels(e.remote))
			// Listing the models may have shown that a key is refused.
			if now, err := e.remote.Status(ctx); err == nil {
				result = u.WithKeyProblems(result, now.Keys)
			}
			return result
		}
		return check, Accounts{List: e.remote.Accounts, Quota: freshQuota(e.remote)}, nothing
	case e.offline:
		skip := func(_ context.Context, u Upstream) Result { return u.Skipped("--offline") }
		return skip, Accounts{List: stored, Reason: "--offline"}, nothing
	case e.daemon.Err != nil || !e.valid:
		if problem == nil {
			problem = &Result{Check: NameListen, Fix: "perigee doctor"}
		}
		block := func(_ context.Context, u Upstream) Result {
			return u.Blocked(problem.Fix, "fix "+problem.Check+" first")
		}
		return block, Accounts{List: stored, Reason: "the state of " + problem.Check}, nothing
	}
	return e.askProviders(ctx, stored, problem)
}

// firstProblem returns the first failed result that accounts depend on, nil if there is none.
func firstProblem(results []Result) *Result {
	for _, name := range []string{NameConfig, NameDataDir, NameDisk, NameStore, NameListen} {
		for i, r := range results {
			notInOrder := r.Status == Fail || r.Status == Warn && name == NameStore
			if r.Check == name && notInOrder {
				return &results[i]
			}
		}
	}
	return nil
}

func freshQuota(control perigee.QuotaControl) func(ctx context.Context) (perigee.QuotaList, error) {
	return func(ctx context.Context) (perigee.QuotaList, error) { return control.Quota(ctx, true) }
}

// freshModels lists the models of an upstream from its server: a cached list would hide that it is
// down.
func freshModels(control perigee.RoutingControl) func(ctx context.Context, upstream string) (perigee.ModelList, error) {
	return func(ctx context.Context, upstream string) (perigee.ModelList, error) {
		return control.Models(ctx, upstream, true)
	}
}

// askProviders calls the providers without a daemon. Upstreams with accounts are left out if there
// are no accounts, or if the data directory or the database has a problem: using them writes to the
// database.
func (e *examination) askProviders(
	ctx context.Context, stored func(ctx context.Context) ([]perigee.AccountRow, error), problem *Result,
) (upstreamCheck, Accounts, func()) {
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	accounts := Accounts{List: stored, Reason: "the absence of a daemon"}
	var rows []perigee.AccountRow
	if problem == nil {
		rows, _ = stored(ctx)
	} else if problem.Check == NameListen {
		problem = nil // providers can be asked without a daemon
		rows, _ = stored(ctx)
	} else {
		accounts.Reason = "the state of " + problem.Check
	}
	left := make(map[string]Result)
	cfg := *e.loaded.Config
	cfg.Models = config.Models{} // routes may name upstreams that are left out
	cfg.Upstreams = nil
	for _, u := range e.loaded.Config.Upstreams {
		described := UpstreamOf(u, e.loaded)
		has := slices.ContainsFunc(rows, func(r perigee.AccountRow) bool { return r.Upstream == u.Name })
		switch {
		case u.Kind == config.KindLangserver:
			left[u.Name] = described.Skipped("language servers run with the daemon")
			if problem == nil {
				left[u.Name] = described.NotRunning(rows)
			}
		case u.HasAccounts() && problem != nil:
			left[u.Name] = described.Blocked(problem.Fix, "fix "+problem.Check+" first")
		case u.HasAccounts() && !has:
			left[u.Name] = described.NoAccount()
		default:
			cfg.Upstreams = append(cfg.Upstreams, u)
		}
	}
	loaded := *e.loaded
	loaded.Config = &cfg
	handle, err := daemon.Connect(ctx, daemon.Options{Loaded: &loaded, Version: e.env.Program.Version, Logger: discard})
	check := func(ctx context.Context, u Upstream) Result {
		if result, found := left[u.Name]; found {
			return result
		}
		if err != nil {
			return u.failed(ctx, err)
		}
		return u.Check(ctx, freshModels(handle))
	}
	if err != nil {
		return check, accounts, func() {}
	}
	if len(rows) > 0 && len(cfg.Upstreams) > 0 {
		accounts.List, accounts.Quota = handle.Accounts, freshQuota(handle)
	}
	return check, accounts, handle.Close
}
