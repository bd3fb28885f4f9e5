package gemini

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// DecodeModels reads one page of the provider's model list.
func DecodeModels(body []byte) (models []perigee.Model, nextPage string, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, "", err
	}
	c := rawjson.NewCursor(body)
	read(c, nil, "nextPageToken", &nextPage, "models", each(c, &models, decodeModel))
	return models, nextPage, c.Err()
}

func decodeModel(c *rawjson.Cursor) perigee.Model {
	var m perigee.Model
	read(c, &m.Extra, "name", &m.ID, "displayName", &m.DisplayName, "description", &m.Description, "version", &m.Version,
		"inputTokenLimit", &m.Context, "outputTokenLimit", &m.Output, "thinking", &m.Thinking,
		"supportedGenerationMethods", func() { m.Methods = decodeStrings(c) })
	m.ID = ModelID(m.ID)
	return m
}

// EncodeModel writes a model as the resource of this dialect. owned_by is not a field of the
// provider's: it is the upstream of the model, as in the lists of other dialects.
func EncodeModel(m *perigee.Model) []byte {
	w := writer{}
	w.model(m)
	return w.Buf
}

// EncodeModels writes one page of the list.
func EncodeModels(models []perigee.Model, nextPage string) []byte {
	w := writer{}
	w.Object()
	w.list("models", len(models), func(i int) { w.model(&models[i]) })
	w.text("nextPageToken", nextPage)
	return w.EndObject().Buf
}

func (w *writer) model(m *perigee.Model) {
	w.Object().Key("name").String("models/" + m.ID)
	w.text("version", m.Version)
	w.text("displayName", m.DisplayName)
	w.text("description", m.Description)
	w.count("inputTokenLimit", m.Context)
	w.count("outputTokenLimit", m.Output)
	w.strings("supportedGenerationMethods", m.Methods)
	if m.Thinking {
		w.Members(`"thinking":true`)
	}
	w.extra(m.Extra)
	w.text("owned_by", m.Upstream)
	w.EndObject()
}
