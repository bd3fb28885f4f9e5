package lsclient

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
)

// modelsFor is how long a list of models is used to find a model.
const modelsFor = 5 * time.Minute

// modelsTime is how long a server that has just started may take to load its models from the
// cloud.
const modelsTime = 10 * time.Second

// modelsPause is the time between two queries for models.
const modelsPause = 250 * time.Millisecond

// maxNamed is the maximum length of an unknown model name in an error.
const maxNamed = 60

// A Catalogue finds models of a language server by the names that people use. It can be used
// concurrently.
type Catalogue struct {
	Client *Client
	// Cloud lists the models of the cloud. Their display names are the labels of the server. It is
	// called if the server does not report the cloud's model IDs. It is nil if there is no list.
	Cloud func(context.Context) ([]perigee.Model, error)

	mu     sync.Mutex
	models []Described
	read   time.Time
}

// A Described is a model of the server, with the cloud's description of it.
type Described struct {
	Model
	Cloud perigee.Model // zero if unknown
}

// Name returns the ID of the cloud, or one made of the label: "gemini-3-flash" for "Gemini 3
// Flash".
func (d *Described) Name() string {
	return cmp.Or(d.ID, d.Cloud.ID, asID(strings.Join(strings.FieldsFunc(strings.ToLower(d.Label), func(r rune) bool {
		return r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")), d.Enum)
}

// asID writes the version in a name of Claude in the form of the cloud, which routes and prices
// use: claude-opus-4-6-thinking.
func asID(name string) string {
	if strings.HasPrefix(strings.ToLower(name), "claude-") {
		return strings.ReplaceAll(name, ".", "-")
	}
	return name
}

// Find returns a model by its ID, label or enum. It reloads a list that does not have the model.
func (c *Catalogue) Find(ctx context.Context, name string) (Described, error) {
	for _, fresh := range []bool{false, true} {
		list, err := c.List(ctx, fresh)
		if err != nil {
			return Described{}, err
		}
		if i := slices.IndexFunc(list, func(d Described) bool {
			return strings.EqualFold(d.Name(), asID(name)) || strings.EqualFold(d.Label, name) || d.Enum == name
		}); i >= 0 {
			return list[i], nil
		}
	}
	return Described{}, perigee.Errorf(perigee.ClassNotFound, "the language server has no model %s", perigee.Clip(name, maxNamed)).
		WithHint("`perigee models` lists the models")
}

// List returns the models. If fresh is false, the list may be a few minutes old.
func (c *Catalogue) List(ctx context.Context, fresh bool) ([]Described, error) {
	c.mu.Lock()
	list, read := c.models, c.read
	c.mu.Unlock()
	if !fresh && len(list) > 0 && time.Since(read) < modelsFor {
		return list, nil
	}
	found, err := c.awaitModels(ctx)
	if err != nil {
		return nil, err
	}
	list = c.describe(ctx, found)
	c.mu.Lock()
	c.models, c.read = list, time.Now()
	c.mu.Unlock()
	return list, nil
}

// awaitModels waits until the server has models.
func (c *Catalogue) awaitModels(ctx context.Context) ([]Model, error) {
	for end := time.Now().Add(modelsTime); ; {
		found, err := c.Client.Models(ctx)
		if err != nil || len(found) > 0 {
			return found, err
		}
		if time.Now().After(end) {
			return nil, perigee.Errorf(perigee.ClassUnavailable, "the language server has not learned its models from the cloud").
				WithHint("`perigee langserver status` shows its state, and its log the reason")
		}
		if !perigee.Pause(ctx, modelsPause) {
			return nil, ctx.Err()
		}
	}
}

// describe adds the cloud's descriptions to models. Without an answer of the cloud, models without
// an ID are named by their labels.
func (c *Catalogue) describe(ctx context.Context, found []Model) []Described {
	list := make([]Described, len(found))
	unnamed := false
	for i, m := range found {
		list[i].Model = m
		unnamed = unnamed || m.ID == ""
	}
	if !unnamed || c.Cloud == nil {
		return list
	}
	known, err := c.Cloud(ctx)
	if err != nil {
		return list
	}
	for i := range list {
		if at := slices.IndexFunc(known, func(m perigee.Model) bool { return strings.EqualFold(m.DisplayName, list[i].Label) }); at >= 0 {
			list[i].Cloud = known[at]
		}
	}
	return list
}

// Default returns the model for a message that names none: an enabled model with quota left, from
// the recommended ones or else from all, a Flash model first. allowed reports whether a model may
// be used; nil allows all.
func (c *Catalogue) Default(ctx context.Context, allowed func(name string) bool) (Described, error) {
	list, err := c.List(ctx, false)
	if err != nil {
		return Described{}, err
	}
	best, most := -1, -1
	for i := range list {
		d := &list[i]
		if d.Disabled || allowed != nil && !allowed(d.Name()) {
			continue
		}
		score := 0
		if d.Remaining == nil || *d.Remaining > 0 {
			score += 4
		}
		if d.Recommended {
			score += 2
		}
		if strings.Contains(strings.ToLower(d.Label), "flash") {
			score++
		}
		if score > most {
			best, most = i, score
		}
	}
	if best < 0 {
		return Described{}, perigee.Errorf(perigee.ClassNotFound, "the language server has no model that is enabled and allowed").
			WithHint("`perigee models` lists the models")
	}
	return list[best], nil
}
