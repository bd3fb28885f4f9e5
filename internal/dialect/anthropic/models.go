package anthropic

import (
	"cmp"
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// writeModel writes a model. An unknown date is the epoch, as Anthropic documents it.
func writeModel(w *rawjson.Writer, m *perigee.Model) *rawjson.Writer {
	created := m.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	w.Object().Members(`"type":"model"`).Key("id").String(m.ID).Key("display_name").String(cmp.Or(m.DisplayName, m.ID))
	w.Key("created_at").String(created.UTC().Format(time.RFC3339))
	if m.Context != 0 {
		w.Key("max_input_tokens").Int(m.Context)
	}
	if m.Output != 0 {
		w.Key("max_tokens").Int(m.Output)
	}
	if m.Thinking || m.Vision != nil || m.Efforts != nil {
		writeCapabilities(w.Key("capabilities").Object(), m).EndObject()
	}
	return w.EndObject()
}

// writeCapabilities writes what is known of the capabilities of a model.
func writeCapabilities(w *rawjson.Writer, m *perigee.Model) *rawjson.Writer {
	if m.Vision != nil {
		w.Key("image_input").Object().Key("supported").Bool(*m.Vision).EndObject()
	}
	if m.Efforts != nil {
		w.Key("effort").Object().Key("supported").Bool(len(m.Efforts) > 0)
		writeSupported(w, m.Efforts).EndObject()
	}
	if m.Thinking {
		w.Key("thinking").Object().Key("supported").Bool(true)
		if m.ThinkingTypes != nil {
			writeSupported(w.Key("types").Object(), m.ThinkingTypes).EndObject()
		}
		w.EndObject()
	}
	return w
}

// writeSupported writes capabilities that are supported, by name.
func writeSupported(w *rawjson.Writer, names []string) *rawjson.Writer {
	for _, name := range names {
		w.Key(name).Object().Key("supported").Bool(true).EndObject()
	}
	return w
}

// EncodeModel writes a model as GET /v1/models/{model} answers with it.
func EncodeModel(m *perigee.Model) []byte { return writeModel(new(rawjson.Writer), m).Buf }

// EncodeModels writes one page of the list; more is true if there are further pages in the
// requested direction.
func EncodeModels(page []perigee.Model, more bool) []byte {
	w := new(rawjson.Writer).Object().Key("data").Array()
	for i := range page {
		writeModel(w, &page[i])
	}
	first, last := "", ""
	if len(page) > 0 {
		first, last = page[0].ID, page[len(page)-1].ID
	}
	w.EndArray().Key("has_more").Bool(more).Key("first_id").StringOrNull(first).Key("last_id").StringOrNull(last)
	return w.EndObject().Buf
}

// EncodeTokenCount writes the answer of count_tokens. A provider's own answer passes unchanged.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	if count.Raw != nil {
		return count.Raw
	}
	var w rawjson.Writer
	return w.Object().Key("input_tokens").Int(count.Total).EndObject().Buf
}
