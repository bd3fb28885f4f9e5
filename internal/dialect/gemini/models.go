package gemini

import (
	"perigee"
	"perigee/internal/rawjson"
)

// DecodeModels reads one page of the provider's model list.
func DecodeModels(body []byte) (models []perigee.Model, nextPage string, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, "", err
	}
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		switch camel(key) {
		case "models":
			for range c.Array() {
				models = append(models, decodeModel(c))
			}
		case "nextPageToken":
			nextPage = c.String()
		}
	}
	return models, nextPage, c.Err()
}

func decodeModel(c *rawjson.Cursor) perigee.Model {
	var m perigee.Model
	for key := range c.Object() {
		switch name := camel(key); name {
		case "name":
			m.ID = ModelID(c.String())
		case "displayName":
			m.DisplayName = c.String()
		case "description":
			m.Description = c.String()
		case "version":
			m.Version = c.String()
		case "inputTokenLimit":
			m.Context = c.Int64()
		case "outputTokenLimit":
			m.Output = c.Int64()
		case "thinking":
			m.Thinking = c.Bool()
		case "supportedGenerationMethods":
			m.Methods = decodeStrings(c)
		default:
			m.Extra = keep(m.Extra, name, c)
		}
	}
	return m
}

// EncodeModel writes a model as the resource of this dialect. owned_by is no field of the provider's: it
// says where the model would be asked, as in the other list shapes.
func EncodeModel(m *perigee.Model) []byte {
	w := writer{}
	w.model(m)
	return w.buf
}

// EncodeModels writes one page of the list.
func EncodeModels(models []perigee.Model, nextPage string) []byte {
	w := writer{}
	w.open()
	w.key("models")
	w.list(len(models), func(i int) { w.model(&models[i]) })
	w.text("nextPageToken", nextPage)
	w.close()
	return w.buf
}

func (w *writer) model(m *perigee.Model) {
	w.open()
	w.text("name", "models/"+m.ID)
	w.text("version", m.Version)
	w.text("displayName", m.DisplayName)
	w.text("description", m.Description)
	if m.Context > 0 {
		w.int("inputTokenLimit", &m.Context)
	}
	if m.Output > 0 {
		w.int("outputTokenLimit", &m.Output)
	}
	w.strings("supportedGenerationMethods", m.Methods)
	if m.Thinking {
		w.bool("thinking", &m.Thinking)
	}
	w.fields(m.Extra)
	w.text("owned_by", m.Upstream)
	w.close()
}
