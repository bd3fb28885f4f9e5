package route

import (
	"context"
	"iter"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/match"
)

// Model returns the model that a client's name refers to, with aliases resolved and without a
// thinking suffix. It is empty if the name is empty and there is no default.
func (r *Router) Model(asked string) string {
	found, _ := r.resolve(asked, unconditional) // fails only without a name
	return found.model
}

// Names returns the names by which the patterns of a key allow a model: the client's own and the
// model's, which is the last one. UPSTREAM/MODEL is allowed by the name of the model alone: a
// pattern such as gemini-* does not mean all models of an upstream with such a name.
func (r *Router) Names(ctx context.Context, asked string) []string {
	found, _ := r.resolveListed(ctx, asked, unconditional)
	return found.names()
}

// names is Names without a wait for lists.
func (r *Router) names(asked string) []string {
	found, _ := r.resolve(asked, unconditional)
	return found.names()
}

// names returns the names by which the patterns of a key allow the model.
func (f *resolution) names() []string {
	if f.asked == "" || f.upstream != "" && !f.aliased {
		return []string{f.model}
	}
	return []string{f.asked, f.model}
}

// Upstreams returns the names of the upstreams for a client's name of a model, in order.
func (r *Router) Upstreams(asked string) []string {
	var list []string
	found, _ := r.resolve(asked, unconditional)
	for _, target := range found.targets {
		list = append(list, target.Name)
	}
	return list
}

// A resolution is the model that a client's name refers to.
type resolution struct {
	model    string
	upstream string            // the only one that may answer, by the name; empty if any may
	thinking *perigee.Thinking // from the suffix of the name; nil if it has none
	targets  []Target
	unasked  []Target // upstreams that do not have the model, while another one may
	asked    string   // the name itself; empty if there was none, and this is the default
	aliased  bool     // an alias led to the model, or a rule that names it
	unsure   bool     // the name ends like a suffix, and no known model decides whether it is one
	embeds   bool     // the request is for embeddings
	fallback bool     // it answers for names that no upstream has

	rule       *Rule // that chose the targets; nil if none did
	replacedBy *Rule // that named the model; nil if none did
}

// key identifies the model among those that no upstream has.
func (f *resolution) key() string {
	if f.upstream == "" {
		return f.model
	}
	return f.upstream + "/" + f.model
}

// origin returns a suffix for error messages about a missing model: where its name comes from, if
// it is not the client's own.
func (f *resolution) origin() string {
	switch {
	case f.asked == "":
		return " (models.default, as the request names none)"
	case f.asked != f.model:
		return " (asked as " + perigee.Clip(f.asked, maxNamed) + ")"
	}
	return ""
}

// resolve turns the client's name for a model into a model and its upstreams. An alias may refer to
// another alias or to a name with a suffix, and a suffix may follow an alias; the client's own
// suffix takes precedence. Patterns apply only if no exact alias does, and only to the name in the
// request, not to the targets of aliases. The rules come last.
func (r *Router) resolve(asked string, applies test) (resolution, error) {
	found := resolution{model: asked, asked: asked}
	if found.model == "" {
		found.model = r.opts.Default
	}
	if found.model == "" {
		return found, perigee.Errorf(perigee.ClassInvalid, "the request names no model").
			WithHint("name one, or set models.default in the configuration")
	}
	r.followAliases(&found)
	if target, ok := r.byPattern(found, asked); ok {
		found.model, found.aliased = target, true
		r.followAliases(&found)
	}
	r.applyRule(&found, applies)
	return found, nil
}

// resolveListed is resolve for a call. If only a list of models can decide whether the name ends with
// a thinking suffix, it first waits for the lists that there never were: for the list of the upstream
// in the name, or for the lists of all upstreams.
func (r *Router) resolveListed(ctx context.Context, asked string, applies test) (resolution, error) {
	found, err := r.resolve(asked, applies)
	if err != nil || !found.unsure {
		return found, err
	}
	targets := r.opts.Targets
	if found.upstream != "" {
		targets = found.targets
	}
	r.awaitLists(ctx, targets, true, func() (exists, certain bool) {
		found, _ := r.resolve(asked, applies)
		return !found.unsure, !found.unsure && found.thinking == nil
	})
	return r.resolve(asked, applies)
}

// followAliases follows exact aliases to a model, and removes the name of an upstream and thinking
// suffixes from the names. A name with an upstream is the upstream's own, and no alias.
func (r *Router) followAliases(found *resolution) {
	found.unsure = false
	for range 2*len(r.opts.Aliases) + 4 { // each alias once, a suffix behind each, and an upstream
		if target, ok := r.opts.Aliases[found.model]; ok && found.upstream == "" {
			found.model, found.aliased = target, true
			continue
		}
		if found.upstream == "" && r.cutUpstream(found) {
			continue
		}
		base, thinking := models.Split(found.model, func(name string) bool {
			found.unsure = !r.hasModel(name)
			return !found.unsure
		})
		if thinking == nil {
			break
		}
		found.model = base
		if found.thinking == nil {
			found.thinking = thinking
		}
	}
}

// cutUpstream removes the upstream from a name of the form UPSTREAM/MODEL. An upstream is meant even
// if a model has such a name itself.
func (r *Router) cutUpstream(found *resolution) bool {
	for _, name := range r.upstreams {
		if model, ok := strings.CutPrefix(found.model, name+"/"); ok && model != "" {
			found.upstream, found.model = name, model
			return true
		}
	}
	return false
}

// isLong reports whether a name means a model of the upstream that it begins with.
func (r *Router) isLong(name string) bool {
	_, isAlias := r.opts.Aliases[name]
	return !isAlias && r.cutUpstream(&resolution{model: name})
}

// offers reports whether the configuration of an upstream does not leave a model out.
func (r *Router) offers(upstream, model string) bool {
	patterns := r.opts.Offered[upstream]
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return match.Pattern(p, model) })
}

// leftOut reports whether the configuration of each upstream leaves the model out.
func (r *Router) leftOut(found *resolution) bool {
	return !slices.ContainsFunc(found.targets, func(t Target) bool { return r.offers(t.Name, found.model) })
}

// byPattern returns the target of the first alias pattern that matches the client's name. The name
// without its thinking suffix is tried first, so that the suffix is not lost.
func (r *Router) byPattern(found resolution, asked string) (target string, ok bool) {
	if asked == "" || found.aliased || found.upstream != "" {
		return "", false
	}
	for _, name := range []string{found.model, asked} {
		for _, pattern := range r.patterns {
			if match.Pattern(pattern, name) {
				return r.opts.Aliases[pattern], true
			}
		}
	}
	return "", false
}

// hasModel reports whether there is a model of this name, as far as that is known without a
// request.
func (r *Router) hasModel(id string) bool {
	if _, ok := r.opts.Aliases[id]; ok {
		return true
	}
	if _, ok := models.Lookup(id); ok {
		return true
	}
	return r.models.has(id)
}

// request returns the request for the resolved model. The thinking suffix of the name overrides the
// amount of thinking in the body, with a note if the two differ; the suffix of the fallback's name,
// and -thinking, apply only if the body has none. Whether the answer includes thinking still depends on the body
// alone.
func (f *resolution) request(req *perigee.Request) (*perigee.Request, *perigee.Note, error) {
	asked := req.Model
	req = req.WithModel(f.model)
	if f.thinking == nil {
		return req, nil, nil
	}
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	var note *perigee.Note
	own := prompt.Generation.Thinking
	switch hasOwn := own != nil && (own.Budget != nil || own.Level != ""); {
	case hasOwn && (f.fallback || f.thinksByDefault()):
		return req, nil, nil
	case f.thinksByDefault():
		note = &perigee.Note{Action: perigee.NoteAdded, Subject: "thinking"}
	case hasOwn && !sameThinking(own, f.thinking):
		note = &perigee.Note{Action: perigee.NoteMapped, Subject: "thinking: as the name " + asked + " says"}
		if err := req.RefuseIfStrict([]perigee.Note{*note}); err != nil {
			return nil, nil, err
		}
	}
	req, err = req.WithThinking(f.thinking)
	return req, note, err
}

// thinksByDefault reports whether the name ends in -thinking.
func (f *resolution) thinksByDefault() bool { return f.thinking != nil && f.thinking.Include != nil }

// sameThinking reports whether both request the same thinking.
func sameThinking(a, b *perigee.Thinking) bool {
	if a.Budget == nil || b.Budget == nil {
		return a.Budget == b.Budget && strings.EqualFold(a.Level, b.Level)
	}
	return *a.Budget == *b.Budget && strings.EqualFold(a.Level, b.Level)
}

// replacements returns the models to try, in order, if no upstream has the model: the one that its
// name asks to think, its successors and its names at other providers, if an upstream lists them or
// no list is available, and then the fallback. There are none for a model that an upstream lists, because then something else was not
// found. Models that the client's key does not allow are left out. If the name has an upstream, only
// that one is asked, and there is no fallback. A model that the configuration of all its upstreams
// leaves out has none: it was left out on purpose.
func (r *Router) replacements(ctx context.Context, found resolution, origin *perigee.Origin) iter.Seq[resolution] {
	return func(yield func(resolution) bool) {
		model := found.model
		spec, _ := models.Lookup(model)
		if next, ok := r.withThinking(ctx, &found); ok && origin.Allows(next.model) && !yield(next) {
			return
		}
		if spec.Instead == "" && (r.opts.Fallback == "" || found.upstream != "") {
			return
		}
		if r.leftOut(&found) {
			return
		}
		known := r.known(ctx, found.upstream)
		if slices.Contains(known, model) {
			return
		}
		seen := []string{model} // models may replace each other: stop at the first repetition
		for ; spec.Instead != "" && !slices.Contains(seen, spec.Instead); spec, _ = models.Lookup(spec.Instead) {
			next := spec.Instead
			seen = append(seen, next)
			if (known == nil || slices.Contains(known, next)) && origin.Allows(next) &&
				!yield(r.instead(ctx, found, next)) {
				return
			}
		}
		if found.upstream != "" {
			return
		}
		if next, ok := r.fallback(); ok && !slices.Contains(seen, next.model) && slices.ContainsFunc(next.names(), origin.Allows) {
			next.asked = found.asked
			r.order(ctx, &next)
			yield(next)
		}
	}
}

// withThinking returns the model that a name of the form MODEL-thinking asks to think, if an upstream
// lists that one and none lists the whole name.
func (r *Router) withThinking(ctx context.Context, found *resolution) (next resolution, ok bool) {
	base, thinking := models.Split(found.model, func(name string) bool { return name != found.model })
	if thinking == nil || thinking.Include == nil || r.leftOut(found) {
		return next, false
	}
	known := r.known(ctx, found.upstream)
	next = r.instead(ctx, *found, base)
	next.thinking = thinking
	return next, slices.Contains(known, base) && !slices.Contains(known, found.model)
}

// instead returns the resolution for a model that answers for another one.
func (r *Router) instead(ctx context.Context, found resolution, model string) resolution {
	next := resolution{model: model, upstream: found.upstream, asked: found.asked}
	r.route(&next)
	r.order(ctx, &next)
	return next
}

// fallback returns the model for names that no upstream has, with its upstreams in the order of the
// configuration.
func (r *Router) fallback() (resolution, bool) {
	if r.opts.Fallback == "" {
		return resolution{}, false
	}
	next := resolution{model: r.opts.Fallback, asked: r.opts.Fallback, fallback: true}
	r.followAliases(&next)
	r.route(&next)
	return next, true
}
