package route

import (
	"cmp"
	"context"
	"fmt"
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
	// modelsLimit bounds a request for a list, also while no caller waits for it: a language server
	// may have to start first.
	modelsLimit = time.Minute
	// modelsWait is how long a call waits for a list after it was requested.
	modelsWait = 3 * time.Second
	// mergedWait is how long the list of all models waits for the list of one upstream.
	mergedWait = 2 * time.Second
	// firstWait is how long the list of all models waits for the first list, if it has none yet.
	firstWait = 30 * time.Second
)

// A modelCache holds the list of models of each upstream. One request asks an upstream at a time,
// for all callers.
type modelCache struct {
	mu    sync.Mutex
	lists map[string]*modelEntry
}

type modelEntry struct {
	former  []perigee.Model // of a list that ForgetModels has dropped
	request *listRequest    // the one that is under way; nil if there is none
	slow    bool            // the last request took longer than modelsWait
	logged  perigee.Class   // of the failure that Models has logged; empty if a list came after it
	modelList
}

// A listRequest is a request for the list of an upstream.
type listRequest struct {
	began time.Time
	named chan struct{} // closed when the names of the models, or the outcome, are in the entry
	over  chan struct{} // closed when the outcome is in the entry
}

// entry returns the cache entry of an upstream, which it creates if necessary. The caller holds the
// lock.
func (c *modelCache) entry(name string) *modelEntry {
	e, ok := c.lists[name]
	if !ok {
		e = new(modelEntry)
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

// latest is the tag that Ollama adds to a name without one.
const latest = ":latest"

// has reports whether the list has a model.
func (l modelList) has(model string) bool {
	return slices.ContainsFunc(l.models, func(m perigee.Model) bool { return m.ID == model || m.ID == model+latest })
}

// never reports whether no request for the list has ended yet.
func (l modelList) never() bool { return l.until.IsZero() && len(l.models) == 0 }

// refused reports whether there is no list because the upstream cannot be reached, or refuses the key.
func (l modelList) refused() bool {
	if l.err == nil || len(l.models) > 0 {
		return false
	}
	switch perigee.AsError(l.err).Class {
	case perigee.ClassUnavailable, perigee.ClassUnauthenticated, perigee.ClassForbidden:
		return true
	}
	return false
}

// waits reports whether a list has been requested for modelsWait.
func (c *modelCache) waits(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lists[name]
	return e != nil && e.request != nil && time.Since(e.request.began) >= modelsWait
}

// lacks reports whether an upstream lists its models, and this one is not among them.
func (l modelList) lacks(model string) bool {
	return l.err == nil && len(l.models) > 0 && !l.has(model)
}

// Models lists each model once, from the upstream that would answer first, the aliases, and each
// model of several upstreams as UPSTREAM/MODEL for each of them. A model with a name that means a
// model of another upstream is listed only as UPSTREAM/MODEL. Models fails only if no upstream can
// be asked: an empty list would mean that there are no models. An upstream that could not be asked
// is logged, unless the last list of it failed in the same way.
func (r *Router) Models(ctx context.Context) ([]perigee.Model, error) {
	list, failed, err := r.ModelsOf(ctx, "")
	for _, f := range failed {
		if r.models.isNews(f) {
			r.opts.Logger.Warn("model list failed", "upstream", f.Upstream, "error", f.Err)
		}
	}
	return list, err
}

// isNews reports whether a failure is to be logged, which it remembers.
func (c *modelCache) isNews(f Failure) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, class := c.entry(f.Upstream), perigee.AsError(f.Err).Class
	news := entry.logged != class
	entry.logged = class
	return news
}

// A Failure is why an upstream could not be asked.
type Failure struct {
	Upstream string
	Err      error
}

// Default returns the model for requests that do not name one, or "" if there is none.
func (r *Router) Default() string { return r.opts.Default }

// ModelsOf lists the models of one upstream, routed to it or not. If the name is empty it lists the
// same models as Models. failed are the upstreams that could not be asked, or have not answered
// within mergedWait, or within firstWait if none has; if all failed, the error is the first of
// theirs. The only upstream, and the one of a name, have as long as they need.
func (r *Router) ModelsOf(ctx context.Context, upstream string) (list []perigee.Model, failed []Failure, err error) {
	if upstream != "" || len(r.opts.Targets) == 1 {
		return r.modelsOf(ctx, upstream, r.within(modelsLimit))
	}
	if list, failed, err = r.modelsOf(ctx, "", r.within(mergedWait)); err == nil {
		return list, failed, nil
	}
	r.awaitFirst(ctx)
	return r.modelsOf(ctx, "", r.within(mergedWait))
}

// awaitFirst waits until an upstream has listed its models, all have failed, or firstWait is over.
func (r *Router) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	for _, target := range r.opts.Targets {
		wait.Go(func() {
			if r.listOf(ctx, target, firstWait).err == nil {
				cancel()
			}
		})
	}
	wait.Wait()
}

// FreshModelsOf is ModelsOf with lists that are requested now, until ctx ends or modelsLimit is over.
// The outcome is not cached: a call neither waits for these requests, nor does their failure delay
// it.
func (r *Router) FreshModelsOf(ctx context.Context, upstream string) (list []perigee.Model, failed []Failure, err error) {
	return r.modelsOf(ctx, upstream, func(ctx context.Context, target Target) (list modelList) {
		if lister, ok := target.Upstream.(perigee.ModelLister); ok {
			list.models, list.err = askForList(ctx, target.Name, lister)
		}
		return list
	})
}

// A listSource returns the list of an upstream.
type listSource func(ctx context.Context, target Target) modelList

// within returns a source of lists that are cached, or come within a limit.
func (r *Router) within(limit time.Duration) listSource {
	return func(ctx context.Context, target Target) modelList { return r.listOf(ctx, target, limit) }
}

// modelsOf is ModelsOf with the lists of a source.
func (r *Router) modelsOf(ctx context.Context, upstream string, source listSource) (list []perigee.Model, failed []Failure, err error) {
	targets := r.opts.Targets
	if upstream != "" {
		targets = slices.DeleteFunc(slices.Clone(targets), func(t Target) bool { return t.Name != upstream })
	}
	lists := make([]modelList, len(targets))
	var wait sync.WaitGroup
	for i, target := range targets {
		wait.Go(func() { lists[i] = source(ctx, target) })
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
	aliased := r.aliases(have)
	hidden := map[string]bool{}
	for _, m := range aliased {
		hidden[m.ID] = true
	}
	var long []perigee.Model
	for _, m := range all {
		taken := r.isLong(m.ID)
		if same := have[m.ID]; len(same) > 1 || taken {
			long = append(long, same...)
		}
		hidden[m.ID] = hidden[m.ID] || taken
	}
	for i := range long {
		m := &long[i]
		if m.ID = m.Upstream + "/" + m.ID; m.DisplayName != "" {
			m.DisplayName += " (" + m.Upstream + ")"
		}
	}
	all = slices.DeleteFunc(all, func(m perigee.Model) bool { return hidden[m.ID] })
	return slices.Concat(all, aliased, long), failed, nil
}

// describe completes a provider's description of a model from the table of models. The provider's
// values take precedence.
func describe(m perigee.Model) perigee.Model {
	spec, ok := models.Lookup(m.ID)
	if !ok {
		return m
	}
	m.DisplayName = cmp.Or(m.DisplayName, spec.Name)
	if m.Created.IsZero() {
		m.Created = models.Released(m.ID)
	}
	m.Context = cmp.Or(m.Context, spec.Context)
	m.Output = cmp.Or(m.Output, spec.Output)
	m.Thinking = m.Thinking || spec.Thinking.Possible()
	return m
}

// serves reports whether a model is routed to this upstream. Aliases are not followed.
func (r *Router) serves(upstream, model string) bool {
	found := resolution{model: model, asked: model}
	r.route(&found)
	return slices.ContainsFunc(found.targets, func(t Target) bool { return t.Name == upstream })
}

// aliases returns the models under their aliases, sorted by name: the exact aliases, and models of
// the lists that an alias replaces with another one. Patterns are not names. have are the models by
// name, of each upstream.
func (r *Router) aliases(have map[string][]perigee.Model) []perigee.Model {
	var aliased []perigee.Model
	candidates := map[string]bool{}
	for name := range have {
		candidates[name] = !r.isLong(name)
	}
	for alias := range r.opts.Aliases {
		candidates[alias] = !match.IsPattern(alias)
	}
	for alias, isName := range candidates {
		found, err := r.resolve(alias, unconditional)
		if err != nil || !isName || found.model == alias {
			continue
		}
		same := have[found.model]
		answers := slices.IndexFunc(same, func(m perigee.Model) bool { return found.upstream == "" || m.Upstream == found.upstream })
		if answers >= 0 {
			m := same[answers]
			m.ID, m.AliasOf = alias, found.model
			m.DisplayName = alias + " (" + found.model + ")"
			aliased = append(aliased, m)
		}
	}
	slices.SortFunc(aliased, func(a, b perigee.Model) int { return strings.Compare(a.ID, b.ID) })
	return aliased
}

// listOf returns the models of an upstream, from the cache while they are fresh. It waits for a list
// for up to limit after it was requested, but for a slow upstream only with modelsLimit. Without
// the new list, the last one counts; if there is none, the result has an error.
func (r *Router) listOf(ctx context.Context, target Target, limit time.Duration) modelList {
	lister, ok := target.Upstream.(perigee.ModelLister)
	if !ok {
		return modelList{}
	}
	entry, request, slow := r.requestList(target.Name, lister)
	var late error
	if request != nil {
		left := limit - time.Since(request.began)
		if slow && limit < modelsLimit {
			left = 0
		}
		select {
		case <-request.over:
		case <-time.After(left):
			late = &perigee.Error{Class: perigee.ClassUnavailable, Upstream: target.Name, Hint: "try again",
				Message: fmt.Sprintf("upstream %s has not listed its models yet", target.Name), Cause: context.DeadlineExceeded}
		case <-ctx.Done():
			late = ctx.Err()
		}
	}
	r.models.mu.Lock()
	defer r.models.mu.Unlock()
	list := entry.modelList
	if late != nil && len(list.models) == 0 && list.err == nil {
		list.err = late
	}
	return list
}

// requestList returns the entry of an upstream, and the request for its list that is under way,
// which it begins if the list is not fresh. request is nil if the list is fresh.
func (r *Router) requestList(name string, lister perigee.ModelLister) (entry *modelEntry, request *listRequest, slow bool) {
	r.models.mu.Lock()
	defer r.models.mu.Unlock()
	entry = r.models.entry(name)
	if entry.request == nil && !r.opts.Now().Before(entry.until) {
		entry.request = &listRequest{began: time.Now(), named: make(chan struct{}), over: make(chan struct{})}
		go r.fetch(entry, entry.request, name, lister)
	}
	return entry, entry.request, entry.slow
}

// fetch requests a list for all callers, and stores the outcome. Until the upstream has details of its
// models, their names alone are the list, if there was none before.
func (r *Router) fetch(entry *modelEntry, request *listRequest, name string, lister perigee.ModelLister) {
	named := sync.OnceFunc(func() { close(request.named) })
	list, err := askForList(perigee.OnNames(r.opts.Base, func(list []perigee.Model) {
		r.models.mu.Lock()
		defer r.models.mu.Unlock()
		if len(entry.models) == 0 && len(list) > 0 {
			entry.models = list
			named()
		}
	}), name, lister)
	r.models.mu.Lock()
	defer r.models.mu.Unlock()
	now := r.opts.Now()
	if entry.err = err; err != nil {
		entry.until = now.Add(modelsRetry)
	} else {
		entry.models, entry.until, entry.logged = list, now.Add(modelsFresh), ""
	}
	entry.slow = time.Since(request.began) > modelsWait
	named()
	close(request.over)
	entry.request = nil
}

// askForList requests the list of an upstream, and waits for it for modelsLimit. The error then is
// that it is late: the upstream itself would report a canceled call.
func askForList(ctx context.Context, name string, lister perigee.ModelLister) ([]perigee.Model, error) {
	bounded, cancel := context.WithTimeout(ctx, modelsLimit)
	defer cancel()
	list, err := lister.Models(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = &perigee.Error{Class: perigee.ClassUnavailable, Upstream: name, Hint: "perigee doctor tests the upstream",
			Message: fmt.Sprintf("upstream %s did not list its models within %v", name, modelsLimit), Cause: context.DeadlineExceeded}
	}
	return list, err
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
		r.models.lists[name] = &modelEntry{former: former, logged: entry.logged}
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
	found, err := r.resolveListed(ctx, model, unconditional)
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
	for _, target := range found.targets {
		_, can := target.Upstream.(perigee.ModelLister)
		has := r.listOf(ctx, target, modelsWait)
		if has.has(found.model) {
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

// known returns the names of all models, or the names at one upstream of its models. It returns nil
// if no upstream lists its models in time.
func (r *Router) known(ctx context.Context, upstream string) []string {
	all, _, err := r.modelsOf(ctx, upstream, r.within(modelsWait))
	if err != nil {
		return nil
	}
	var list []string
	for _, m := range all {
		if own := r.names(m.ID)[0]; own != m.ID && !r.isLong(own) {
			continue // it is in the list without its upstream, too
		}
		if upstream != "" {
			m.ID = strings.TrimPrefix(m.ID, upstream+"/")
		}
		list = append(list, m.ID)
	}
	return list
}
