package route

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/match"
)

// A list of models is valid for modelsFresh. An upstream that failed to list its models is asked
// again after modelsRetry, so that requests for unknown models cause no load on the provider. Its
// last list stays.
const (
	modelsFresh = 10 * time.Minute
	modelsRetry = 10 * time.Second
	modelsWait  = 3 * time.Second
)

// A modelCache holds the list of models of each upstream. One caller asks an upstream at a time;
// concurrent callers wait for its list.
type modelCache struct {
	mu    sync.Mutex
	lists map[string]*modelEntry
}

type modelEntry struct {
	asking chan struct{}   // a semaphore of one
	former []perigee.Model // of a list that ForgetModels has dropped
	modelList
}

// entry returns the cache entry of an upstream, which it creates if necessary.
func (c *modelCache) entry(name string) *modelEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lists[name]
	if !ok {
		e = &modelEntry{asking: make(chan struct{}, 1)}
		if c.lists == nil {
			c.lists = map[string]*modelEntry{}
		}
		c.lists[name] = e
	}
	return e
}

// A modelList is the last list of an upstream. After an error it is the list before.
type modelList struct {
	models []perigee.Model
	err    error
	until  time.Time
}

// last returns the last list of an upstream, which is empty if there is none.
func (c *modelCache) last(name string) modelList {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.lists[name]; ok {
		return e.modelList
	}
	return modelList{}
}

// has reports whether the list has a model.
func (l modelList) has(model string) bool {
	return slices.ContainsFunc(l.models, func(m perigee.Model) bool { return m.ID == model })
}

// lacks reports whether an upstream lists its models, and this one is not among them.
func (l modelList) lacks(model string) bool {
	return l.err == nil && len(l.models) > 0 && !l.has(model)
}

// Models lists each model once, from the upstream that would answer first, the aliases, and each
// model of several upstreams as UPSTREAM/MODEL for each of them. It fails only if no upstream can be
// asked.
func (r *Router) Models(ctx context.Context) ([]perigee.Model, error) {
	list, failed, err := r.ModelsOf(ctx, "")
	for _, f := range failed {
		r.opts.Logger.Warn("model list failed", "upstream", f.Upstream, "error", f.Err)
	}
	return list, err
}

// A Failure is why an upstream could not be asked.
type Failure struct {
	Upstream string
	Err      error
}

// Default returns the model for requests that do not name one, or "" if there is none.
func (r *Router) Default() string { return r.opts.Default }

// ModelsOf lists the models of one upstream, routed to it or not. If the name is empty it lists the
// same models as Models. failed are the upstreams that could not be asked; if none could, the error
// is the first of theirs.
func (r *Router) ModelsOf(ctx context.Context, upstream string) (list []perigee.Model, failed []Failure, err error) {
	targets := r.opts.Targets
	if upstream != "" {
		targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return t.Name != upstream })
	}
	lists := make([]modelList, len(targets))
	var wait sync.WaitGroup
	for i, target := range targets {
		wait.Go(func() { lists[i] = r.listOf(ctx, target) })
	}
	wait.Wait()

	var all []perigee.Model
	have := map[string][]perigee.Model{} // by name, of each upstream that has the model
	for i, list := range lists {
		if list.err != nil {
			failed = append(failed, Failure{targets[i].Name, list.err})
		}
		for _, m := range list.models {
			if upstream == "" && !r.serves(targets[i].Name, m.ID) {
				continue
			}
			m, same := describe(m), have[m.ID]
			m.Upstream = targets[i].Name
			if len(same) == 0 {
				all = append(all, m)
			} else if same[len(same)-1].Upstream == m.Upstream {
				continue // it lists the model twice
			}
			have[m.ID] = append(same, m)
		}
	}
	if len(failed) > 0 && len(failed) == len(targets) && len(all) == 0 {
		return nil, failed, failed[0].Err
	}
	aliased := r.aliases(all)
	hidden := func(m perigee.Model) bool {
		return slices.ContainsFunc(aliased, func(a perigee.Model) bool { return a.ID == m.ID })
	}
	var shared []perigee.Model
	for _, m := range all {
		if same := have[m.ID]; len(same) > 1 {
			shared = append(shared, same...)
		}
	}
	for i := range shared {
		m := &shared[i]
		if m.ID = m.Upstream + "/" + m.ID; m.DisplayName != "" {
			m.DisplayName += " (" + m.Upstream + ")"
		}
	}
	return slices.Concat(slices.DeleteFunc(all, hidden), aliased, shared), failed, nil
}

// describe completes a provider's description of a model from the table of models. The provider's
// values take precedence.
func describe(m perigee.Model) perigee.Model {
	spec, ok := models.Lookup(m.ID)
	if !ok {
		return m
	}
	m.DisplayName = cmp.Or(m.DisplayName, spec.Name)
	m.Created = models.Released(m.ID)
	m.Context = cmp.Or(m.Context, spec.Context)
	m.Output = cmp.Or(m.Output, spec.Output)
	m.Thinking = m.Thinking || spec.Thinking.Possible()
	return m
}

// serves reports whether a model is routed to this upstream. Aliases are not followed.
func (r *Router) serves(upstream, model string) bool {
	return slices.ContainsFunc(r.targets(model), func(t Target) bool { return t.Name == upstream })
}

// aliases returns the models under their aliases, sorted by name: the exact aliases, and models of
// the list that an alias replaces with another one. Patterns are not names.
func (r *Router) aliases(list []perigee.Model) []perigee.Model {
	var aliased []perigee.Model
	listed := map[string]bool{}
	for _, m := range list {
		listed[m.ID] = true
	}
	candidates := maps.Clone(listed)
	for alias := range r.opts.Aliases {
		candidates[alias] = !match.IsPattern(alias)
	}
	for alias, isName := range candidates {
		found, err := r.resolve(alias)
		if err != nil || !isName || found.model == alias {
			continue
		}
		for _, m := range list {
			if m.ID == found.model {
				m.ID, m.AliasOf = alias, found.model
				m.DisplayName = alias + " (" + found.model + ")"
				aliased = append(aliased, m)
			}
		}
	}
	slices.SortFunc(aliased, func(a, b perigee.Model) int { return strings.Compare(a.ID, b.ID) })
	return aliased
}

// listOf returns the models of an upstream, from the cache while it is fresh.
func (r *Router) listOf(ctx context.Context, target Target) modelList {
	lister, ok := target.Upstream.(perigee.ModelLister)
	if !ok {
		return modelList{}
	}
	entry := r.models.entry(target.Name)
	select {
	case entry.asking <- struct{}{}:
		defer func() { <-entry.asking }()
	case <-ctx.Done():
		return modelList{err: ctx.Err()}
	}
	now := r.opts.Now()
	if now.Before(entry.until) {
		return entry.modelList
	}
	var list modelList
	list.models, list.err = lister.Models(ctx)
	if list.until = now.Add(modelsFresh); list.err != nil {
		list.models, list.until = entry.models, r.opts.Now().Add(modelsRetry)
	}
	// An error of a canceled caller is not the upstream's.
	if ctx.Err() == nil || context.Cause(ctx) == errSlowList {
		r.models.mu.Lock() // for concurrent calls of has
		entry.modelList = list
		r.models.mu.Unlock()
	}
	return list
}

// ForgetModels invalidates the cached lists of models, their errors and the models that no upstream
// had, because accounts have changed. Known names stay known until the lists are next requested. A
// list that is being requested now is not cached.
func (r *Router) ForgetModels() {
	r.models.mu.Lock()
	for name, entry := range r.models.lists {
		former := entry.models
		if len(former) == 0 {
			former = entry.former
		}
		r.models.lists[name] = &modelEntry{asking: make(chan struct{}, 1), former: former}
	}
	r.models.mu.Unlock()
	r.absents.clear()
}

// has reports whether a cached list of an upstream has the model.
func (c *modelCache) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.lists {
		former := modelList{models: entry.former}
		if entry.has(id) || entry.until.IsZero() && former.has(id) {
			return true
		}
	}
	return false
}

// Missing returns the error that a call for a model would get because none of its upstreams has it.
// Upstreams are asked only about names that are not in the table of models. unsure is true if an
// upstream could not list its models in time, and may have the model.
func (r *Router) Missing(ctx context.Context, model string) (unsure bool, err error) {
	found, err := r.resolve(model)
	if err != nil {
		return false, err
	}
	absent, unsure := r.absent(ctx, found)
	if absent == nil {
		return unsure, nil
	}
	if next, ok := r.fallback(); ok && next.model != found.model && found.upstream == "" && !r.leftOut(&found) {
		return false, nil // whether it may be used depends on the request
	}
	return false, r.failure(ctx, found, &perigee.Origin{}, absent)
}

// absent returns the failures of the upstreams of a model if none of them lists it. It returns nil
// if one lists it, if the model is in the table of models, or if an upstream cannot list its models
// in time; only then unsure is true.
func (r *Router) absent(ctx context.Context, found resolution) (list failures, unsure bool) {
	if _, ok := models.Lookup(found.model); ok {
		return nil, false
	}
	ctx, cancel := waitForLists(ctx)
	defer cancel()
	for _, target := range found.targets {
		_, can := target.Upstream.(perigee.ModelLister)
		has := r.listOf(ctx, target)
		if slices.ContainsFunc(has.models, func(m perigee.Model) bool { return m.ID == found.model }) {
			return nil, false
		}
		unsure = unsure || !can || has.err != nil
		list = append(list, failure{upstream: target.Name, err: perigee.Errorf(perigee.ClassNotFound, "no model %q", found.model)})
	}
	if unsure {
		return nil, true
	}
	return list, false
}

// errSlowList is the cause when a call stops waiting for a list.
var errSlowList = errors.New("the list of models did not come in time")

// waitForLists returns a context that bounds how long a call waits for lists of models.
func waitForLists(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, modelsWait, errSlowList)
}

// known returns the names of all models, or of the models of one upstream. It returns nil if no
// upstream lists its models in time.
func (r *Router) known(ctx context.Context, upstream string) []string {
	ctx, cancel := waitForLists(ctx)
	defer cancel()
	all, _, err := r.ModelsOf(ctx, upstream)
	if err != nil {
		return nil
	}
	var list []string
	for _, m := range all {
		if r.Names(m.ID)[0] == m.ID { // not with an upstream
			list = append(list, m.ID)
		}
	}
	return list
}
