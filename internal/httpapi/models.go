package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/dialect/anthropic"
	"perigee/internal/dialect/openai"
)

// vendorModels answers GET /v1/models: in Anthropic's shape with an anthropic-version header, else in OpenAI's. The owner, through
// the socket, gets the list of a Control with ?problems=true.
func (c *call) vendorModels() error {
	if query := c.r.URL.Query(); c.trusted && query.Get("problems") == "true" {
		control, err := c.control()
		if err != nil {
			return err
		}
		list, err := control.Models(c.owned(), query.Get("upstream"))
		if err != nil {
			return err
		}
		return c.writeValue(list)
	}
	models, err := c.models()
	if err != nil {
		return err
	}
	if c.dialect == perigee.DialectAnthropic {
		return c.anthropicModels(models)
	}
	c.writeJSON(http.StatusOK, openai.EncodeModels(models))
	return nil
}

// vendorModel answers GET /v1/models/{model}.
func (c *call) vendorModel() error {
	model, err := c.modelNamed(c.rest, "/v1/models")
	if err != nil {
		return err
	}
	c.describe(model.Upstream, model.ID)
	if c.dialect == perigee.DialectAnthropic {
		c.writeJSON(http.StatusOK, anthropic.EncodeModel(model)) // under the name that it has in the list, as Anthropic's does
		return nil
	}
	asked := *model
	asked.ID = c.rest
	c.writeJSON(http.StatusOK, openai.EncodeModel(&asked))
	return nil
}

// modelNamed returns the model that a request with this name would go to: the one that is called so, or else the one that the name
// stands for, as an alias or with a word about thinking behind it. The list at path is where the others are.
func (c *call) modelNamed(name, path string) (*perigee.Model, error) {
	if err := checkModel(name); err != nil {
		return nil, err
	}
	models, err := c.models()
	if err != nil {
		return nil, err
	}
	find := func(list []perigee.Model, id string) *perigee.Model {
		if i := slices.IndexFunc(list, func(m perigee.Model) bool { return m.ID == id }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	if model := find(models, name); model != nil {
		return model, nil
	}
	behind := c.opts.Model(name)
	if model := find(models, behind); model != nil {
		return model, nil
	}
	if c.key != nil && c.key.mayAsk(name) { // under this name it may ask what it may not ask under its own
		all, err := c.opts.Upstream.(perigee.ModelLister).Models(c.r.Context())
		if model := find(all, behind); err == nil && model != nil {
			return model, nil
		}
	}
	return nil, unknownModel(name, path, models)
}

func (c *call) writeValue(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, raw)
	return nil
}

// Anthropic's page sizes.
const (
	anthropicPage    = 20
	anthropicMaxPage = 1000
)

// anthropicModels answers with one page of the list: limit models after after_id, or before before_id.
func (c *call) anthropicModels(models []perigee.Model) error {
	query := c.r.URL.Query()
	limit := anthropicPage
	if v := query.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > anthropicMaxPage {
			return perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", shorten(v), anthropicMaxPage)
		}
		limit = n
	}
	from, to := 0, len(models)
	for name, end := range map[string]*int{"after_id": &from, "before_id": &to} {
		id := query.Get(name)
		if id == "" {
			continue
		}
		i := slices.IndexFunc(models, func(m perigee.Model) bool { return m.ID == id })
		if i < 0 {
			return perigee.Errorf(perigee.ClassInvalid, "%s names no model: %q", name, shorten(id)).WithNext("start again without it")
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
	c.writeJSON(http.StatusOK, anthropic.EncodeModels(page, len(page) < len(rest)))
	return nil
}
