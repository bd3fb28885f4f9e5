package openai

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// writeModel writes a model: the official fields, and then the fields of other gateways that
// clients read. created is 0 if the date is unknown.
func writeModel(w *rawjson.Writer, m *perigee.Model) *rawjson.Writer {
	created := int64(0)
	if !m.Created.IsZero() {
		created = m.Created.Unix()
	}
	w.Object().Key("id").String(m.ID).Members(`"object":"model"`).Key("created").Int(created).Key("owned_by").String(m.Upstream)
	if m.DisplayName != "" {
		w.Key("name").String(m.DisplayName)
	}
	if m.Context != 0 {
		w.Key("context_length").Int(m.Context)
	}
	if m.Output != 0 {
		w.Key("max_output_tokens").Int(m.Output)
	}
	if m.Thinking {
		w.Members(`"thinking":true`)
	}
	if m.Vision != nil {
		w.Key("vision").Bool(*m.Vision)
	}
	if m.Tools != nil {
		w.Key("tools").Bool(*m.Tools)
	}
	return w.EndObject()
}

// EncodeModel writes a model as GET /v1/models/{model} answers with it.
func EncodeModel(m *perigee.Model) []byte { return writeModel(new(rawjson.Writer), m).Buf }

// EncodeModels writes the answer of GET /v1/models, which has all of them on one page.
func EncodeModels(models []perigee.Model) []byte {
	w := new(rawjson.Writer).Object().Members(`"object":"list"`).Key("data").Array()
	for i := range models {
		writeModel(w, &models[i])
	}
	return w.EndArray().EndObject().Buf
}
