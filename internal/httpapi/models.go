package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"perigee"
)

// vendorModels answers GET /v1/models: in Anthropic's shape to who sends anthropic-version, else in OpenAI's.
func (c *call) vendorModels() error {
	models, err := c.models()
	if err != nil {
		return err
	}
	if c.dialect == perigee.DialectAnthropic {
		return c.anthropicModels(models)
	}
	list := openaiModels{Object: "list", Data: []openaiModel{}}
	for i := range models {
		list.Data = append(list.Data, openaiModelOf(&models[i]))
	}
	return c.writeValue(list)
}

// vendorModel answers GET /v1/models/{model}.
func (c *call) vendorModel() error {
	models, err := c.models()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(models, func(m perigee.Model) bool { return m.ID == c.rest })
	if i < 0 {
		return unknownModel(c.rest, "/v1/models", models)
	}
	c.describe(models[i].Upstream, models[i].ID)
	if c.dialect == perigee.DialectAnthropic {
		return c.writeValue(anthropicModelOf(&models[i]))
	}
	return c.writeValue(openaiModelOf(&models[i]))
}

func (c *call) writeValue(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, raw)
	return nil
}

type openaiModels struct {
	Object string        `json:"object"`
	Data   []openaiModel `json:"data"`
}

// An openaiModel has the official fields first. The limits are what other gateways put there, and clients look for
// them; when a model was made is not known.
type openaiModel struct {
	ID              string `json:"id"`
	Object          string `json:"object"`
	Created         int64  `json:"created"`
	OwnedBy         string `json:"owned_by"`
	Name            string `json:"name,omitempty"`
	ContextLength   int64  `json:"context_length,omitempty"`
	MaxOutputTokens int64  `json:"max_output_tokens,omitempty"`
}

func openaiModelOf(m *perigee.Model) openaiModel {
	return openaiModel{ID: m.ID, Object: "model", OwnedBy: m.Upstream, Name: m.DisplayName,
		ContextLength: m.Context, MaxOutputTokens: m.Output}
}

type anthropicModelList struct {
	Data    []anthropicModel `json:"data"`
	HasMore bool             `json:"has_more"`
	FirstID *string          `json:"first_id"`
	LastID  *string          `json:"last_id"`
}

type anthropicModel struct {
	Type           string `json:"type"`
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"`
	MaxInputTokens int64  `json:"max_input_tokens,omitempty"`
	MaxTokens      int64  `json:"max_tokens,omitempty"`
}

func anthropicModelOf(m *perigee.Model) anthropicModel {
	name := m.DisplayName
	if name == "" {
		name = m.ID
	}
	return anthropicModel{Type: "model", ID: m.ID, DisplayName: name, CreatedAt: time.Unix(0, 0).UTC().Format(time.RFC3339),
		MaxInputTokens: m.Context, MaxTokens: m.Output}
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
	list := anthropicModelList{Data: []anthropicModel{}, HasMore: len(page) < len(rest)}
	for i := range page {
		list.Data = append(list.Data, anthropicModelOf(&page[i]))
	}
	if len(page) > 0 {
		list.FirstID, list.LastID = &page[0].ID, &page[len(page)-1].ID
	}
	return c.writeValue(list)
}
