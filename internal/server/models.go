package server

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/match"
	"perigee/internal/server/clientkey"
	"perigee/internal/server/mount"
)

// vendorModels answers GET /v1/models: in Anthropic's shape with an anthropic-version header, else
// in OpenAI's. The owner, through the socket, gets the list of a Control with ?problems=true, and a
// fresh one with ?fresh=true.
func (p *systemPages) vendorModels(w http.ResponseWriter, r *http.Request) error {
	if query := r.URL.Query(); mount.CallOf(r).Trusted && query.Get("problems") == "true" {
		list, err := p.Control.Models(r.Context(), query.Get("upstream"), query.Get("fresh") == "true")
		if err != nil {
			return err
		}
		return mount.WriteValue(w, list)
	}
	models, err := p.models(r)
	if err != nil {
		return err
	}
	if mount.CallOf(r).Anthropic {
		return anthropicModels(w, r, models)
	}
	mount.WriteJSON(w, http.StatusOK, openai.EncodeModels(models))
	return nil
}

// vendorModel answers GET /v1/models/{model}.
func (p *systemPages) vendorModel(w http.ResponseWriter, r *http.Request) error {
	model, err := p.modelNamed(r, mount.Wildcard(r), "/v1/models")
	if err != nil {
		return err
	}
	mount.Describe(w, model.Upstream, model.ID)
	if mount.CallOf(r).Anthropic {
		// Like Anthropic's API, with the ID that the model has in the list.
		mount.WriteJSON(w, http.StatusOK, anthropic.EncodeModel(model))
		return nil
	}
	asked := *model
	asked.ID = mount.Wildcard(r)
	mount.WriteJSON(w, http.StatusOK, openai.EncodeModel(&asked))
	return nil
}

// modelNamed returns the model that a request with this name would go to: the model of this name,
// or the one that the name refers to as an alias or with a thinking suffix. path is the path of the
// list.
func (p *systemPages) modelNamed(r *http.Request, name, path string) (*perigee.Model, error) {
	if err := clientkey.CheckModel(name); err != nil {
		return nil, err
	}
	models, err := p.models(r)
	if err != nil {
		return nil, err
	}
	call := mount.CallOf(r)
	if found := p.find(r, models, name); found != nil {
		return found, nil
	}
	// The key may allow the model under this name only, not under its own.
	if call.AllowsModel != nil && slices.ContainsFunc(p.Names(r.Context(), name), call.Allows) {
		all, err := perigee.Passthrough{Upstream: p.Upstream}.Models(r.Context())
		if found := p.find(r, all, name); err == nil && found != nil {
			return found, nil
		}
	}
	return nil, unknownModel(name, path, models)
}

// find returns the model that a name refers to, or nil if it is not in the list. A name with an
// upstream refers to a model of that upstream only.
func (p *systemPages) find(r *http.Request, models []perigee.Model, name string) *perigee.Model {
	if i := indexOf(models, name); i >= 0 {
		return &models[i]
	}
	model, long := p.Model(name), p.Names(r.Context(), name)[0] != name
	for i := range models {
		m := &models[i]
		if long && !strings.HasPrefix(name, m.Upstream+"/") {
			continue
		}
		if m.ID == model || long && m.ID == m.Upstream+"/"+model {
			return m
		}
	}
	return nil
}

// indexOf returns the index of the model with an ID, or -1 if there is none.
func indexOf(models []perigee.Model, id string) int {
	return slices.IndexFunc(models, func(m perigee.Model) bool { return m.ID == id })
}

// Anthropic's page sizes.
const (
	anthropicPage    = 20
	anthropicMaxPage = 1000
)

// anthropicModels answers with one page of the list: limit models after after_id, or before
// before_id.
func anthropicModels(w http.ResponseWriter, r *http.Request, models []perigee.Model) error {
	query := r.URL.Query()
	limit, err := mount.Limit(query, anthropicPage, anthropicMaxPage, "")
	if err != nil {
		return err
	}
	from, to := 0, len(models)
	for name, end := range map[string]*int{"after_id": &from, "before_id": &to} {
		id := query.Get(name)
		if id == "" {
			continue
		}
		i := indexOf(models, id)
		if i < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "%s names no model: %q", name, mount.Shorten(id)).
				WithHint("start again without it")
		}
		if *end = i; name == "after_id" {
			*end = i + 1
		}
	}
	rest := models[from:max(from, to)]
	page := rest[:min(limit, len(rest))]
	if query.Get("before_id") != "" && query.Get("after_id") == "" {
		page = rest[len(rest)-len(page):] // the page right before it, not the first
	}
	mount.WriteJSON(w, http.StatusOK, anthropic.EncodeModels(page, len(page) < len(rest)))
	return nil
}

// The provider's page sizes.
const (
	defaultPage = 50
	maxPage     = 1000
)

// geminiModels answers GET /v1beta/models, a page at a time.
func (p *systemPages) geminiModels(w http.ResponseWriter, r *http.Request) error {
	models, err := p.models(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	size := defaultPage
	if v := query.Get("pageSize"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "pageSize %q is not a number of models", mount.Shorten(v))
		}
		if n > 0 {
			size = min(n, maxPage)
		}
	}
	from := 0
	if token := query.Get("pageToken"); token != "" {
		// A token names the last model that was given, so that a list that changes meanwhile loses
		// nothing.
		last, err := base64.RawURLEncoding.DecodeString(token)
		i := indexOf(models, string(last))
		if err != nil || i < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "this pageToken is not one of ours, or its model is gone").
				WithHint("start again without it")
		}
		from = i + 1
	}
	page, next := models[from:], ""
	if len(page) > size {
		page = page[:size]
		next = base64.RawURLEncoding.EncodeToString([]byte(page[size-1].ID))
	}
	mount.WriteJSON(w, http.StatusOK, gemini.EncodeModels(page, next))
	return nil
}

// geminiModel answers GET /v1beta/models/{model}.
func (p *systemPages) geminiModel(w http.ResponseWriter, r *http.Request) error {
	model, err := p.modelNamed(r, gemini.ModelID(mount.Wildcard(r)), "/v1beta/models")
	if err != nil {
		return err
	}
	mount.Describe(w, model.Upstream, model.ID)
	mount.WriteJSON(w, http.StatusOK, gemini.EncodeModel(model))
	return nil
}

// noMethod answers POST /v1beta/models/{model}.
func noMethod(_ http.ResponseWriter, r *http.Request) error {
	return perigee.Errorf(perigee.ClassNotFound, "no method in the path %s", mount.Shorten(r.URL.Path)).
		WithHint("append one, as in models/gemini-3-flash:generateContent")
}

// models lists the models that the presented key allows.
func (p *systemPages) models(r *http.Request) ([]perigee.Model, error) {
	models, err := perigee.Passthrough{Upstream: p.Upstream}.Models(r.Context())
	call := mount.CallOf(r)
	if err != nil || call.AllowsModel == nil {
		return models, err
	}
	var allowed []perigee.Model
	for _, m := range models {
		if slices.ContainsFunc(p.Names(r.Context(), m.ID), call.Allows) {
			allowed = append(allowed, m)
		}
	}
	return allowed, nil
}

// unknownModel is the error about a model that is not in the list at path.
func unknownModel(id, path string, models []perigee.Model) error {
	var known []string
	for _, m := range models {
		known = append(known, m.ID)
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q", mount.Shorten(id))
	if near := match.Nearest(id, known, 3); len(near) > 0 {
		return e.WithHint("the nearest names are %s", strings.Join(near, ", "))
	}
	return e.WithHint("GET %s lists all", path)
}
