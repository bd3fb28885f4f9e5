package lsclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
)

// A Model is a model that the language server offers.
type Model struct {
	// ID in the cloud, such as gemini-3-flash; empty if the language server does not report it
	ID          string
	Label       string // display name
	Enum        string // the value in requests, such as MODEL_PLACEHOLDER_M18, or its number
	Images      bool   // it reads images
	Disabled    bool
	Recommended bool
	Remaining   *float64 // of its quota, from 0 to 1; nil if unknown
}

// Models returns the models, sorted by label. The IDs come from GetAvailableModels, which older
// versions lack; other fields come from GetCascadeModelConfigs or GetUserStatus.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	data, err := c.call(ctx, "GetAvailableModels", c.limits.read, object{})
	if err != nil && perigee.AsError(err).Class != perigee.ClassUnimplemented {
		return nil, err
	}
	models := availableModels(data)
	configs, err := c.modelConfigs(ctx)
	if err != nil && len(models) == 0 {
		return nil, err
	}
	models = join(models, configs)
	slices.SortFunc(models, func(a, b Model) int {
		return cmp.Or(strings.Compare(a.Label, b.Label), strings.Compare(a.ID, b.ID), strings.Compare(a.Enum, b.Enum))
	})
	return models, nil
}

// modelConfigs returns the models without ids.
func (c *Client) modelConfigs(ctx context.Context) ([]Model, error) {
	data, err := c.call(ctx, "GetCascadeModelConfigs", c.limits.read, c.withMetadata(object{}))
	if err == nil {
		if models := configuredModels(data); len(models) > 0 {
			return models, nil
		}
	} else if perigee.AsError(err).Class != perigee.ClassUnimplemented {
		return nil, err
	}
	data, err = c.call(ctx, "GetUserStatus", c.limits.read, c.withMetadata(object{}))
	if err != nil {
		return nil, err
	}
	return configuredModels(data), nil
}

// lenient reads JSON into a struct. Members of another type are skipped.
func lenient(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}

// A wireModel is a model in the answers of all three methods.
type wireModel struct {
	Label        string    `json:"label"`
	DisplayName  string    `json:"displayName"`
	Model        enumValue `json:"model"`
	ModelOrAlias struct {
		Model enumValue `json:"model"`
	} `json:"modelOrAlias"`
	SupportsImages bool `json:"supportsImages"`
	Disabled       bool `json:"disabled"`
	Recommended    bool `json:"recommended"`
	IsRecommended  bool `json:"isRecommended"`
	QuotaInfo      *struct {
		RemainingFraction *float64 `json:"remainingFraction"`
		ResetTime         string   `json:"resetTime"`
	} `json:"quotaInfo"`
}

// An enumValue is the name or the number of a value.
type enumValue string

func (e *enumValue) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case string:
		*e = enumValue(value)
	case float64:
		*e = enumValue(fmt.Sprint(int64(value)))
	}
	return nil
}

func (w wireModel) model(id string) Model {
	m := Model{
		ID: id, Label: cmp.Or(w.Label, w.DisplayName, id), Enum: string(cmp.Or(w.Model, w.ModelOrAlias.Model)),
		Images: w.SupportsImages, Disabled: w.Disabled, Recommended: w.Recommended || w.IsRecommended,
	}
	if q := w.QuotaInfo; q != nil && q.RemainingFraction != nil {
		m.Remaining = new(min(max(*q.RemainingFraction, 0), 1))
	} else if q != nil {
		// JSON omits a zero. If the time is missing as well, the quota is unknown.
		if _, err := time.Parse(time.RFC3339Nano, q.ResetTime); err == nil {
			m.Remaining = new(0.0)
		}
	}
	return m
}

// availableModels reads the answer of GetAvailableModels: a map by id, within one of several
// members.
func availableModels(data []byte) []Model {
	type available struct {
		Models map[string]wireModel `json:"models"`
	}
	var answer struct {
		available
		Response        available `json:"response"`
		AvailableModels available `json:"availableModels"`
	}
	if len(data) == 0 || lenient(data, &answer) != nil {
		return nil
	}
	var models []Model
	for _, from := range []available{answer.Response, answer.AvailableModels, answer.available} {
		for id, entry := range from.Models {
			if model := entry.model(id); model.Enum != "" {
				models = append(models, model)
			}
		}
		if len(models) > 0 {
			break
		}
	}
	return models
}

// configuredModels reads the answers of GetCascadeModelConfigs and GetUserStatus.
func configuredModels(data []byte) []Model {
	type configs struct {
		ClientModelConfigs []wireModel `json:"clientModelConfigs"`
	}
	var answer struct {
		configs
		UserStatus struct {
			CascadeModelConfigData configs `json:"cascadeModelConfigData"`
		} `json:"userStatus"`
	}
	if lenient(data, &answer) != nil {
		return nil
	}
	var models []Model
	for _, entry := range append(answer.ClientModelConfigs, answer.UserStatus.CascadeModelConfigData.ClientModelConfigs...) {
		if model := entry.model(""); model.Enum != "" {
			models = append(models, model)
		}
	}
	return models
}

// join completes models with an ID from configs. If there are no models, it returns configs.
func join(models, configs []Model) []Model {
	if len(models) == 0 {
		return configs
	}
	for i, model := range models {
		at := slices.IndexFunc(configs, func(config Model) bool { return config.Enum == model.Enum })
		if at < 0 {
			continue
		}
		config := configs[at]
		models[i].Label = config.Label
		models[i].Images = model.Images || config.Images
		models[i].Disabled = model.Disabled || config.Disabled
		models[i].Recommended = model.Recommended || config.Recommended
		models[i].Remaining = cmp.Or(model.Remaining, config.Remaining)
	}
	return models
}
