package openai

import (
	"encoding/json"

	"perigee"
)

// A model has the official fields first. The limits are fields of other gateways that clients read.
// Created is 0 if the date is unknown.
type model struct {
	ID              string `json:"id"`
	Object          string `json:"object"`
	Created         int64  `json:"created"`
	OwnedBy         string `json:"owned_by"`
	Name            string `json:"name,omitempty"`
	ContextLength   int64  `json:"context_length,omitempty"`
	MaxOutputTokens int64  `json:"max_output_tokens,omitempty"`
}

func modelOf(m *perigee.Model) model {
	shown := model{ID: m.ID, Object: "model", OwnedBy: m.Upstream, Name: m.DisplayName,
		ContextLength: m.Context, MaxOutputTokens: m.Output}
	if !m.Created.IsZero() {
		shown.Created = m.Created.Unix()
	}
	return shown
}

// EncodeModel writes a model as GET /v1/models/{model} answers with it.
func EncodeModel(m *perigee.Model) []byte {
	raw, _ := json.Marshal(modelOf(m)) // texts and numbers
	return raw
}

// EncodeModels writes the answer of GET /v1/models, which has all of them on one page.
func EncodeModels(models []perigee.Model) []byte {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for i := range models {
		list.Data = append(list.Data, modelOf(&models[i]))
	}
	raw, _ := json.Marshal(list)
	return raw
}
