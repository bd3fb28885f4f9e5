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

// Model is the model that a client's name stands for, without aliases and suffixes about thinking.
// Empty: the name is empty, and there is no default.
func (r *Router) Model(asked string) string {
	found, _ := r.resolve(asked) // fails only without a name
	return found.model
}

// Upstreams are the names of the upstreams for a model, in order.
func (r *Router) Upstreams(model string) []string {
	var list []string
	for _, target := range r.targets(model) {
		list = append(list, target.Name)
	}
	return list
}

// A resolved is the model that a client's name stands for.
type resolved struct {
	model    string
	thinking *perigee.Thinking // what the name says about thinking; nil: nothing
	targets  []Target
	asked    string // the name itself; empty: there was none, and this is the default
	aliased  bool   // an alias led to the model
	embeds   bool   // it is to embed, which the models for answers cannot
}

// origin explains, behind the name of a model that no upstream has, where the name comes from if
// the client did not write it.
func (f *resolved) origin() string {
	switch {
	case f.asked == "":
		return " (models.default, as the request names none)"
	case f.asked != f.model:
		return " (asked as " + perigee.Clip(f.asked, maxNamed) + ")"
	}
	return ""
}

// resolve turns what the client asked for into a model and the upstreams to ask for it. Aliases may
// stand for aliases and for names with a suffix, and a suffix may stand behind an alias; the
// client's own suffix wins. An alias that is a pattern counts only where no exact one does, and
// only for the name in the request: what an alias stands for is a model that the configuration
// names.
func (r *Router) resolve(asked string) (resolved, error) {
	found := resolved{model: asked, asked: asked}
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
	found.targets = r.targets(found.model)
	return found, nil
}

// followAliases goes from a name over exact aliases to a model, and takes off what the names say
// about thinking.
func (r *Router) followAliases(found *resolved) {
	for range 2*len(r.opts.Aliases) + 2 { // each alias once, and a suffix behind each
		if target, ok := r.opts.Aliases[found.model]; ok {
			found.model, found.aliased = target, true
			continue
		}
		base, thinking := models.Split(found.model, r.knows)
		if thinking == nil {
			break
		}
		found.model = base
		if found.thinking == nil {
			found.thinking = thinking
		}
	}
}

// byPattern finds what the first pattern among the aliases that fits the client's name stands for.
// The name without what it says about thinking is tried first, so that this is not lost.
func (r *Router) byPattern(found resolved, asked string) (target string, ok bool) {
	if asked == "" || found.aliased {
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

// knows says whether there is a model of this name, as far as that is known without a request.
func (r *Router) knows(id string) bool {
	if _, ok := r.opts.Aliases[id]; ok {
		return true
	}
	if _, ok := models.Lookup(id); ok {
		return true
	}
	return r.models.has(id)
}

// request makes the request one for the model, with the thinking that its name asks for instead of
// what the body says; whether the client wants to see it is the body's alone. Where the two differ,
// there is a note.
func (f *resolved) request(req *perigee.Request) (*perigee.Request, *perigee.Note, error) {
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
	if said := prompt.Generation.Thinking; said != nil && (said.Budget != nil || said.Level != "") && !sameWish(said, f.thinking) {
		note = &perigee.Note{Action: perigee.NoteMapped, Subject: "thinking: as the name " + asked + " says"}
		if err := req.RefuseIfStrict([]perigee.Note{*note}); err != nil {
			return nil, nil, err
		}
	}
	req, err = req.WithThinking(f.thinking)
	return req, note, err
}

// sameWish says whether both ask for the same thinking.
func sameWish(a, b *perigee.Thinking) bool {
	if a.Budget == nil || b.Budget == nil {
		return a.Budget == b.Budget && strings.EqualFold(a.Level, b.Level)
	}
	return *a.Budget == *b.Budget && strings.EqualFold(a.Level, b.Level)
}

// replacements are the models to try when no upstream has one, in order: its successors and its
// names elsewhere, as far as an upstream lists them or no list can be had, and then the fallback.
// There are none for a model that an upstream does list: then something else was not found. Models
// that the client's key does not allow are left out.
func (r *Router) replacements(ctx context.Context, found resolved, origin *perigee.Origin) iter.Seq[resolved] {
	return func(yield func(resolved) bool) {
		model := found.model
		spec, _ := models.Lookup(model)
		if spec.Instead == "" && r.opts.Fallback == "" {
			return
		}
		known := r.known(ctx)
		if slices.Contains(known, model) {
			return
		}
		seen := []string{model} // some stand for each other: the line ends where it would come back
		for ; spec.Instead != "" && !slices.Contains(seen, spec.Instead); spec, _ = models.Lookup(spec.Instead) {
			next := spec.Instead
			seen = append(seen, next)
			if (known == nil || slices.Contains(known, next)) && origin.Allows(next) &&
				!yield(resolved{model: next, targets: r.targets(next), asked: found.asked}) {
				return
			}
		}
		if next, ok := r.fallback(); ok && !slices.Contains(seen, next.model) && (origin.Allows(r.opts.Fallback) || origin.Allows(next.model)) {
			next.asked = found.asked
			yield(next)
		}
	}
}

// fallback is the model for names that no upstream has.
func (r *Router) fallback() (resolved, bool) {
	if r.opts.Fallback == "" {
		return resolved{}, false
	}
	next := resolved{model: r.opts.Fallback}
	r.followAliases(&next)
	next.targets = r.targets(next.model)
	return next, true
}

// replace makes the request one for a model that takes the place of another. What the client says
// about thinking stays; what the name of the fallback says counts where the client says nothing.
func (f *resolved) replace(req *perigee.Request) (*perigee.Request, error) {
	req = req.WithModel(f.model)
	if f.thinking == nil {
		return req, nil
	}
	prompt, err := req.Prompt()
	if err != nil {
		return nil, err
	}
	if said := prompt.Generation.Thinking; said != nil && (said.Budget != nil || said.Level != "") {
		return req, nil
	}
	return req.WithThinking(f.thinking)
}
