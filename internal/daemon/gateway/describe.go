package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/account/roster"
	"perigee/internal/route"
	"perigee/internal/store/config"
)

// Entries returns the upstreams in force, in the order of the configuration.
func (g *Gateway) Entries() []*Entry { return g.current.Load().entries }

// Hold returns the upstreams in force, of which none is closed until release is called.
func (g *Gateway) Hold() (list []*Entry, release func()) {
	r, release := g.acquire()
	return r.entries, release
}

// Rosters returns the accounts of the upstreams that have any.
func (g *Gateway) Rosters() []*roster.Roster {
	var list []*roster.Roster
	for _, entry := range g.current.Load().entries {
		if entry.Roster != nil {
			list = append(list, entry.Roster)
		}
	}
	return list
}

// AccountsOf returns the name of the upstream that has the accounts for calls to an upstream.
func (g *Gateway) AccountsOf(upstream string) string {
	if e := g.current.Load().entry(upstream); e != nil {
		return cmp.Or(e.Config.AccountsFrom, upstream)
	}
	return upstream
}

// Within restricts a request for an account to the pools that calls to an upstream can use.
func (g *Gateway) Within(upstream string, req pool.Request) pool.Request {
	if e := g.current.Load().entry(upstream); e != nil {
		return e.within(req)
	}
	return req
}

func (e *Entry) within(req pool.Request) pool.Request {
	if e.Within == nil {
		return req
	}
	return e.Within(req)
}

// Describe describes the upstreams in force, each with a summary that needs no call, and the models
// that are routed there: "studio (gemini, 2 keys, for gemini-*)".
func (g *Gateway) Describe(routes []config.Route) []string {
	var lines []string
	for _, e := range g.Entries() {
		what := e.Summary()
		if e.Config.Kind != e.Config.Name {
			what = e.Config.Kind + ", " + what
		}
		var routed []string
		for _, route := range routes {
			if slices.Contains(route.To, e.Config.Name) && !slices.Contains(routed, route.Match) {
				routed = append(routed, route.Match)
			}
		}
		if len(routed) > 3 {
			routed = append(routed[:3], "…")
		}
		if len(routed) > 0 {
			what += ", for " + strings.Join(routed, " ")
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", e.Config.Name, what))
	}
	return lines
}

// Unusable returns why no upstream can answer, as far as that is known without a call; empty if one
// can.
func (g *Gateway) Unusable() string {
	var reasons []string
	for _, e := range g.Entries() {
		why := e.Unusable()
		if why == "" {
			return ""
		}
		reasons = append(reasons, e.Config.Name+": "+why)
	}
	return strings.Join(reasons, "; ")
}

// ListModels lists the models of all upstreams or of one, and the upstreams that could not be asked.
// If fresh is true, it requests the lists now, and does not fail if no upstream could be asked. It also
// tests the upstream of a name.
func (g *Gateway) ListModels(ctx context.Context, upstream string, fresh bool) (list perigee.ModelList, err error) {
	r, release := g.acquire()
	defer release()
	if upstream != "" && r.entry(upstream) == nil {
		return list, perigee.Errorf(perigee.ClassNotFound, "no upstream %q", upstream)
	}
	request := r.router.ModelsOf
	if fresh {
		request = r.router.FreshModelsOf
	}
	found, failed, err := request(ctx, upstream)
	if err != nil && !fresh {
		return list, allOf(err, failed)
	}
	for _, m := range found {
		list.Rows = append(list.Rows, perigee.ModelRow{
			ID: m.ID, Upstream: m.Upstream, Context: m.Context, Output: m.Output, Thinking: m.Thinking, Vision: m.Vision, Tools: m.Tools,
			AliasOf: m.AliasOf, Default: m.ID == r.router.Default(),
		})
	}
	if fresh && upstream != "" && len(failed) == 0 {
		failed = r.entry(upstream).probe(ctx, found)
	}
	for _, f := range failed {
		problem := perigee.Problem{Upstream: f.Upstream, Why: f.Err.Error()}
		if fresh {
			problem = perigee.ProblemOf(f.Upstream, f.Err)
		}
		list.Problems = append(list.Problems, problem)
	}
	for _, e := range r.entries { // a list may be older than the refusal of the last account
		name := e.Config.Name
		known := slices.ContainsFunc(list.Problems, func(p perigee.Problem) bool { return p.Upstream == name })
		if why := e.Unusable(); why != "" && !known && (upstream == "" || upstream == name) {
			list.Problems = append(list.Problems, perigee.Problem{Upstream: name, Why: why})
		}
	}
	return list, nil
}

// probe tests an upstream that has listed its models, and returns why it cannot answer.
func (e *Entry) probe(ctx context.Context, found []perigee.Model) (failed []route.Failure) {
	if p, ok := e.Upstream.(prober); ok {
		own := slices.DeleteFunc(slices.Clone(found), func(m perigee.Model) bool { return m.AliasOf != "" })
		if err := p.Probe(ctx, own); err != nil {
			failed = append(failed, route.Failure{Upstream: e.Config.Name, Err: err})
		}
	}
	return failed
}

// allOf returns the error if no upstream could be called: the error of the first one, with the
// messages of all.
func allOf(err error, failed []route.Failure) error {
	var words []string
	for _, f := range failed {
		if text := f.Err.Error(); !slices.Contains(words, text) {
			words = append(words, text)
		}
	}
	if len(words) < 2 {
		return err
	}
	e := *perigee.AsError(err)
	e.Message, e.Hint = strings.Join(words, "; "), ""
	return &e
}
