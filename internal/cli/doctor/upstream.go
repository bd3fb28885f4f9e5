package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// An Upstream is a source to be checked.
type Upstream struct {
	Name, Kind string
	URL        string         // its address; empty if it is on this machine
	Config     string         // the configuration file; empty if there is none
	Lines      map[string]int // of its settings in that file; its entry begins in the line of ""
	Variable   string         // the variable with the API key, if there is no configuration file
	Builtin    bool           // it is the simulator that answers because nothing is configured
	Accounts   string         // the upstream with the accounts that it uses; empty if it uses none
	Daemon     Daemon         // the daemon of a Builtin upstream
}

// UpstreamOf describes an upstream of a configuration.
func UpstreamOf(u config.Upstream, loaded *config.Loaded) Upstream {
	described := Upstream{Name: u.Name, Kind: u.Kind, URL: addressOf(u), Config: loaded.Path}
	if i := slices.IndexFunc(loaded.Environment, func(e config.EnvironmentUpstream) bool { return e.Name == u.Name }); i >= 0 {
		described.Variable = loaded.Environment[i].Variable
	}
	described.Lines = linesOf(u, loaded)
	if described.Accounts = u.AccountsFrom; u.HasAccounts() {
		described.Accounts = u.Name
	}
	return described
}

// linesOf returns the lines of the settings of an upstream in the configuration file.
func linesOf(u config.Upstream, loaded *config.Loaded) map[string]int {
	i := slices.IndexFunc(loaded.Config.Upstreams, func(known config.Upstream) bool { return known.Name == u.Name })
	item, lines := fmt.Sprintf("upstreams[%d]", i), map[string]int{}
	for key, origin := range loaded.Origins {
		if setting, ok := strings.CutPrefix(key, item); ok && origin.Source == loaded.Path {
			lines[strings.TrimPrefix(setting, ".")] = origin.Line
		}
	}
	return lines
}

// edit returns the command that opens the configuration file at a setting.
func (u Upstream) edit(setting string) string {
	return edit(u.Config, cmp.Or(u.Lines[setting], u.Lines[""]))
}

// addressOf returns the base URL of the provider of an upstream, or "".
func addressOf(u config.Upstream) string {
	switch n := len(u.Endpoints); {
	case n > 0:
		return u.Endpoints[n-1] // lists of models are read from it first
	case config.KindOf(u.Kind).URL != "":
		return u.URL
	}
	return u.CloudURL
}

// Skipped returns the result for an upstream that is not asked, and need not be.
func (u Upstream) Skipped(reason string) Result {
	return ok(NameUpstream+u.Name, "kind %s; not asked: %s", u.Kind, reason)
}

// Blocked returns the result for an upstream that cannot be asked before something else is fixed.
func (u Upstream) Blocked(fix, reason string) Result {
	return warn(NameUpstream+u.Name, fix, "not asked: %s", reason)
}

// NoAccount returns the result for an upstream without an account.
func (u Upstream) NoAccount() Result {
	return fail(NameUpstream+u.Name, u.signIn(), "no account is signed in")
}

// NotRunning returns the result for a language server without a daemon: the stored state of its
// accounts.
func (u Upstream) NotRunning(rows []perigee.AccountRow) Result {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row perigee.AccountRow) bool { return row.Upstream != u.Accounts })
	usable := func(row perigee.AccountRow) bool { return row.Enabled && stateOf(row).Status != Fail }
	switch {
	case u.Accounts != "" && len(rows) == 0:
		return u.NoAccount()
	case u.Accounts != "" && !slices.ContainsFunc(rows, usable):
		return fail(NameUpstream+u.Name, "perigee account list", "no account can be used")
	}
	return u.Skipped("language servers run with the daemon")
}

// Check lists the models of an upstream, which costs no tokens. list requests them from the provider,
// through the daemon if there is one.
func (u Upstream) Check(ctx context.Context, list func(ctx context.Context, upstream string) (perigee.ModelList, error)) Result {
	name := NameUpstream + u.Name
	switch {
	case u.Builtin && u.Daemon.Stale != "":
		return warn(name, u.Daemon.restart(), "%s, so the built-in simulator answers", u.Daemon.Stale)
	case u.Builtin:
		return warn(name, edit(u.Config, 0), "no upstream is configured, so the built-in simulator answers")
	}
	began := time.Now()
	found, err := list(ctx, u.Name)
	if err == nil && len(found.Problems) > 0 {
		err = found.Problems[0].Err()
	}
	if err != nil {
		return u.failed(ctx, err)
	}
	return ok(name, "kind %s, %d models, answered in %s", u.Kind, len(found.Rows), terminal.Duration(time.Since(began)))
}

// shownKeyProblems is how many unusable keys a detail lists.
const shownKeyProblems = 3

// WithKeyProblems returns a result that was OK, with the reasons why API keys of the upstream
// cannot be used.
func (u Upstream) WithKeyProblems(r Result, list []perigee.KeyProblem) Result {
	list = slices.DeleteFunc(slices.Clone(list), func(t perigee.KeyProblem) bool { return t.Upstream != u.Name })
	if r.Status != OK || len(list) == 0 {
		return r
	}
	var details []string
	for _, t := range list[:min(len(list), shownKeyProblems)] {
		text := t.Why
		if t.Model != "" {
			text += fmt.Sprintf(" for %s until %s", t.Model, t.Until.Local().Format("15:04:05"))
		}
		details = append(details, text)
	}
	if more := len(list) - len(details); more > 0 {
		details = append(details, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(details, "; ")
	if list[0].Model != "" {
		return look(warn(r.Check, "perigee explain "+commandLine(list[0].Model), "%s", text))
	}
	return warn(r.Check, u.signIn(), "%s", text)
}

func (u Upstream) failed(ctx context.Context, err error) Result {
	name := NameUpstream + u.Name
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return look(fail(name, u.look(), "it did not answer in time"))
	}
	own := *perigee.AsError(err)
	own.Message = strings.TrimPrefix(own.Message, "upstream "+u.Name+": ")
	e := &own
	switch {
	case e.Fix != "":
		return fail(name, e.Fix, "%s", e.Message)
	case e.Setting != "":
		return fail(name, u.edit(e.Setting), "%v", e)
	}
	switch e.Class {
	case perigee.ClassUnauthenticated, perigee.ClassForbidden, perigee.ClassInvalid:
		return fail(name, u.signIn(), "%s", e.Message)
	case perigee.ClassVerification:
		return look(fail(name, "perigee account list", "%s", e.Message))
	case perigee.ClassExhausted, perigee.ClassRateLimited, perigee.ClassCapacity:
		return look(warn(name, "perigee quota", "%s", e.Message))
	default:
		return look(fail(name, u.look(), "%v", e))
	}
}

// signIn returns the command for a credential that is missing or refused.
func (u Upstream) signIn() string {
	switch {
	case config.KindOf(u.Kind).SignsIn:
		return "perigee login --upstream " + commandLine(cmp.Or(u.Accounts, u.Name))
	case u.Variable != "":
		return "export " + u.Variable + "=…"
	}
	return u.edit("keys")
}

// look returns the command that shows why an upstream cannot be reached.
func (u Upstream) look() string {
	switch look := config.KindOf(u.Kind).Look; {
	case look != "":
		return look
	case u.URL != "":
		return "curl -sSIv " + commandLine(u.URL)
	}
	return "perigee models --upstream " + commandLine(u.Name)
}

// A Proxy is a proxy that connections to providers go through.
type Proxy struct {
	Source string // "/path/config.yaml:12", "environment PERIGEE_PROXY", "environment"
	URL    *url.URL
	Fix    string // for one that cannot be reached
}

// Proxies lists the proxies of a configuration, and the environment's if an upstream uses it.
func Proxies(loaded *config.Loaded) (list []Proxy) {
	add := func(p Proxy) {
		if p.URL != nil && p.URL.Host != "" && !slices.ContainsFunc(list, func(known Proxy) bool { return known.URL.Host == p.URL.Host }) {
			list = append(list, p)
		}
	}
	for i, u := range loaded.Config.Upstreams {
		switch set := u.Proxy.Reveal(); {
		case set == "none":
		case set != "":
			origin := loaded.Origins[fmt.Sprintf("upstreams[%d].proxy", i)]
			proxy, _ := url.Parse(set)
			add(Proxy{Source: origin.String(), URL: proxy, Fix: editOrigin(origin)})
		case addressOf(u) != "":
			if req, err := http.NewRequest(http.MethodGet, addressOf(u), nil); err == nil {
				proxy, _ := http.ProxyFromEnvironment(req)
				add(Proxy{Source: "environment", URL: proxy, Fix: "unset HTTPS_PROXY https_proxy"})
			}
		}
	}
	return list
}

func editOrigin(origin config.Origin) string {
	if name, isVariable := strings.CutPrefix(origin.Source, "environment "); isVariable {
		return "unset " + name
	}
	return edit(origin.Source, origin.Line)
}

// CheckProxies connects to each proxy. With offline it only names them. Without a proxy there is no
// result.
func CheckProxies(ctx context.Context, list []Proxy, offline bool) []Result {
	var results []Result
	for _, p := range list {
		address := p.URL.Host
		if p.URL.Port() == "" {
			address = net.JoinHostPort(p.URL.Hostname(),
				map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[p.URL.Scheme])
		}
		if offline {
			results = append(results, ok(NameProxy, "%s://%s (%s); not reached because of --offline", p.URL.Scheme, p.URL.Host, p.Source))
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			results = append(results, fail(NameProxy, p.Fix, "%s://%s (%s) cannot be reached: %v", p.URL.Scheme, p.URL.Host, p.Source, err))
			continue
		}
		_ = conn.Close()
		results = append(results, ok(NameProxy, "%s://%s (%s)", p.URL.Scheme, p.URL.Host, p.Source))
	}
	if len(results) == 0 {
		return nil
	}
	return []Result{merge(NameProxy, results)}
}
