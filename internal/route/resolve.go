package route

import (
	"context"
	"iter"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
)

// Model is what a client's name for a model stands for: aliases followed, and what the name says about thinking taken off.
// Empty: the name is, and there is no default.
func (r *Router) Model(asked string) string {
	found, _ := r.resolve(asked) // which fails for want of a name only
	return found.model
}

// Upstreams are the names of those that are asked for a model, in order.
func (r *Router) Upstreams(model string) []string {
	var list []string
	for _, target := range r.targets(model) {
		list = append(list, target.Name)
	}
	return list
}

// A resolved is what the name that a client used stands for.
type resolved struct {
	model    string
	thinking *perigee.Thinking // what the name says about thinking; nil: nothing
	targets  []Target
	asked    string // the name itself; empty: there was none, and this is the default
}

// origin says, behind the name of a model that nobody has, how it came to be asked for when that is not what the client wrote.
func (f *resolved) origin() string {
	switch {
	case f.asked == "":
		return " (models.default, as the request names none)"
	case f.asked != f.model:
		return " (asked as " + perigee.Clip(f.asked, maxNamed) + ")"
	}
	return ""
}

// resolve turns what the client asked for into a model and the upstreams to ask for it. Aliases may stand for aliases
// and for names with a suffix, and a suffix may stand behind an alias; the client's own suffix wins.
func (r *Router) resolve(asked string) (resolved, error) {
	found := resolved{model: asked, asked: asked}
	if found.model == "" {
		found.model = r.opts.Default
	}
	if found.model == "" {
		return found, perigee.Errorf(perigee.ClassInvalid, "the request names no model").
			WithNext("name one, or set models.default in the configuration")
	}
	for range 2*len(r.opts.Aliases) + 2 { // each alias once, and a suffix behind each
		if target, ok := r.opts.Aliases[found.model]; ok {
			found.model = target
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
	found.targets = r.targets(found.model)
	return found, nil
}

// knows says whether there is a model of this name, as far as that can be said without asking anybody.
func (r *Router) knows(id string) bool {
	if _, ok := r.opts.Aliases[id]; ok {
		return true
	}
	if _, ok := models.Lookup(id); ok {
		return true
	}
	return r.models.has(id)
}

// request makes the request one for the model, with the thinking that its name asks for instead of what the body
// says; whether the client wants to see it is the body's alone. Where the two differ, there is a note.
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
		if err := req.Object([]perigee.Note{*note}); err != nil {
			return nil, nil, err
		}
	}
	req, err = req.WithThinking(f.thinking)
	return req, note, err
}

// sameWish says whether both ask for as much thinking.
func sameWish(a, b *perigee.Thinking) bool {
	if a.Budget == nil || b.Budget == nil {
		return a.Budget == b.Budget && strings.EqualFold(a.Level, b.Level)
	}
	return *a.Budget == *b.Budget && strings.EqualFold(a.Level, b.Level)
}

// replacements are the models to ask when nobody has one, in order: its successors and its names elsewhere, as far as
// somebody lists them or nobody can tell. There are none for a model that somebody does list: then it was something
// else that was not found.
func (r *Router) replacements(ctx context.Context, model string) iter.Seq[string] {
	return func(yield func(string) bool) {
		spec, _ := models.Lookup(model)
		if spec.Instead == "" {
			return
		}
		known := r.known(ctx)
		seen := []string{}
		for ; spec.Instead != "" && !slices.Contains(known, model); spec, _ = models.Lookup(spec.Instead) {
			// Some stand for each other: the line ends where it would come back.
			if spec.Instead == model || slices.Contains(seen, spec.Instead) {
				return
			}
			seen = append(seen, spec.Instead)
			if (known == nil || slices.Contains(known, spec.Instead)) && !yield(spec.Instead) {
				return
			}
		}
	}
}
