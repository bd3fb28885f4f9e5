package ollama

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A Description is the server's description of a model.
type Description struct {
	Context int64 // how many tokens the model was trained for; 0 if unknown
	// Capabilities are nil if unknown, as for servers before they reported them.
	Capabilities []string
}

// The names in Description.Capabilities.
const (
	CapabilityTools    = "tools"
	CapabilityVision   = "vision"
	CapabilityThinking = "thinking"
)

// Has reports whether the model has a capability. known is false if the server does not report it.
func (d *Description) Has(capability string) (has, known bool) {
	return slices.Contains(d.Capabilities, capability), d.Capabilities != nil
}

// A Listed is a model in a list. Its description may be incomplete.
type Listed struct {
	Name string
	Description
}

// DecodeTags reads the list of models.
func DecodeTags(body []byte) (list []Listed, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, err
	}
	c := rawjson.NewCursor(body)
	c.Read(nil, "models", func() {
		for range c.Array() {
			var m Listed
			var name string
			c.Read(nil, "name", &name, "model", &m.Name, "capabilities", func() { m.Capabilities = words(c) },
				"details", func() { c.Read(nil, "context_length", &m.Context) })
			m.Context = max(m.Context, 0)
			if m.Name == "" {
				m.Name = name
			}
			if m.Name != "" {
				list = append(list, m)
			}
		}
	})
	return list, c.Err()
}

// words reads a list of strings. It is not nil.
func words(c *rawjson.Cursor) []string {
	list := []string{}
	for range c.Array() {
		list = append(list, c.String())
	}
	return list
}

// EncodeShow writes the body of POST /api/show.
func EncodeShow(model string) []byte {
	var w rawjson.Writer
	return w.Object().Key("model").String(model).EndObject().Buf
}

// DecodeShow reads the description of a model. The name of the member with its context has the
// architecture of the model.
func DecodeShow(body []byte) (d Description, err error) {
	if err := rawjson.Check(body); err != nil {
		return d, err
	}
	c := rawjson.NewCursor(body)
	c.Read(nil, "capabilities", func() { d.Capabilities = words(c) }, "model_info", func() {
		for key := range c.Object() {
			if strings.HasSuffix(string(key), ".context_length") && c.Kind() == rawjson.Number {
				d.Context = max(c.Int64(), 0)
			}
		}
	})
	return d, c.Err()
}

// DecodeLoaded reads the list of the models that are loaded, and returns how many tokens a model is
// loaded with; 0 if it is not, or if the server does not report it.
func DecodeLoaded(body []byte, model string) (context int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return 0, err
	}
	c := rawjson.NewCursor(body)
	c.Read(nil, "models", func() {
		for range c.Array() {
			var name, id string
			var size int64
			c.Read(nil, "name", &name, "model", &id, "context_length", &size)
			if SameModel(name, model) || SameModel(id, model) {
				context = max(context, size)
			}
		}
	})
	return context, c.Err()
}

// latest is the tag of a name without one.
const latest = ":latest"

// Bare returns a name without the tag latest, which a name without a tag has.
func Bare(model string) string { return strings.TrimSuffix(model, latest) }

// SameModel reports whether two names are of one model.
func SameModel(a, b string) bool { return strings.EqualFold(Bare(a), Bare(b)) }

// Model returns the model of a list, without a limit that is higher than the configured one.
func (m *Listed) Model(limit int64) perigee.Model {
	out := perigee.Model{ID: m.Name, Context: m.Context}
	if m.Context > limit {
		out.Context = limit
	}
	if m.Capabilities != nil {
		has := func(capability string) *bool { return new(slices.Contains(m.Capabilities, capability)) }
		out.Vision, out.Tools = has(CapabilityVision), has(CapabilityTools)
		out.Thinking = slices.Contains(m.Capabilities, CapabilityThinking)
	}
	return out
}
