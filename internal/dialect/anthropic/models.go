package anthropic

import (
	"encoding/json"
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

type model struct {
	Type           string `json:"type"`
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"`
	MaxInputTokens int64  `json:"max_input_tokens,omitempty"`
	MaxTokens      int64  `json:"max_tokens,omitempty"`
}

// modelOf is a model as this API shows it. A date that is not known is the epoch, as Anthropic
// documents it.
func modelOf(m *perigee.Model) model {
	name := m.DisplayName
	if name == "" {
		name = m.ID
	}
	created := m.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	return model{Type: "model", ID: m.ID, DisplayName: name, CreatedAt: created.UTC().Format(time.RFC3339),
		MaxInputTokens: m.Context, MaxTokens: m.Output}
}

// EncodeModel writes a model as GET /v1/models/{model} answers with it.
func EncodeModel(m *perigee.Model) []byte {
	raw, _ := json.Marshal(modelOf(m)) // texts and numbers
	return raw
}

// EncodeModels writes one page of the list; more is true if there are further pages in the
// requested direction.
func EncodeModels(page []perigee.Model, more bool) []byte {
	list := struct {
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
	}{Data: []model{}, HasMore: more}
	for i := range page {
		list.Data = append(list.Data, modelOf(&page[i]))
	}
	if len(page) > 0 {
		list.FirstID, list.LastID = &page[0].ID, &page[len(page)-1].ID
	}
	raw, _ := json.Marshal(list)
	return raw
}

// EncodeTokenCount writes the answer of count_tokens.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	var w rawjson.Writer
	return w.Object().Key("input_tokens").Int(count.Total).EndObject().Buf
}
