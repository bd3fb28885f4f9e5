package openai

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// DecodeModels reads the list of a provider's models. OpenAI's own list has names only; other servers
// add limits and abilities, each under its own names. next is the address of the next page, or empty
// if there is none.
func DecodeModels(body []byte) (models []perigee.Model, next string, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, "", err
	}
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		switch {
		case string(key) == "data" && c.Kind() == rawjson.Array:
			for range c.Array() {
				if m := decodeModel(c); m.ID != "" {
					models = append(models, m)
				}
			}
		case string(key) == "links" && c.Kind() == rawjson.Object:
			for key := range c.Object() {
				if string(key) == "next" {
					next = scalar(c)
				}
			}
		}
	}
	return models, next, c.Err()
}

// decodeModel reads one model. Members of an unexpected kind are ignored.
func decodeModel(c *rawjson.Cursor) (m perigee.Model) {
	if c.Kind() != rawjson.Object {
		return m
	}
	var trained int64 // the limit of the model, where the server does not report its own
	thinks := func(yes *bool) { m.Thinking = m.Thinking || yes != nil && *yes }
	for key := range c.Object() {
		switch string(key) {
		case "id":
			m.ID = strings.TrimPrefix(scalar(c), "models/")
		case "name", "display_name":
			m.DisplayName = scalar(c)
		case "description":
			m.Description = scalar(c)
		case "created":
			if at := count(c); at > 0 {
				m.Created = time.Unix(at, 0).UTC()
			}
		case "context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens":
			m.Context = cmp.Or(m.Context, count(c))
		case "max_output_tokens", "max_completion_tokens":
			m.Output = cmp.Or(m.Output, count(c))
		case "top_provider":
			m.Output = cmp.Or(m.Output, countIn(c, "max_completion_tokens"))
		case "architecture":
			for key := range members(c) {
				if string(key) == "input_modalities" && c.Kind() == rawjson.Array {
					m.Vision = new(slices.Contains(scalars(c), "image"))
				}
			}
		case "capabilities": // of Mistral
			for key := range members(c) {
				switch string(key) {
				case "vision":
					m.Vision = flag(c)
				case "function_calling":
					m.Tools = flag(c)
				case "reasoning":
					thinks(flag(c))
				}
			}
		case "vision", "supports_image_input":
			m.Vision = flag(c)
		case "tools", "supports_tools":
			m.Tools = flag(c)
		case "thinking":
			thinks(flag(c))
		case "meta":
			trained = countIn(c, "n_ctx_train")
		case "reasoning":
			m.Thinking = m.Thinking || c.Kind() == rawjson.Object
		case "supported_parameters":
			if c.Kind() == rawjson.Array {
				names := scalars(c)
				m.Thinking = m.Thinking || slices.Contains(names, "reasoning")
				m.Tools = new(slices.Contains(names, "tools"))
			}
		}
	}
	m.Context = cmp.Or(m.Context, trained)
	return m
}

// members iterates over an object, and over nothing for another value.
func members(c *rawjson.Cursor) iter.Seq[[]byte] {
	if c.Kind() != rawjson.Object {
		return func(func([]byte) bool) {}
	}
	return c.Object()
}

// scalars reads an array of texts.
func scalars(c *rawjson.Cursor) (list []string) {
	for range c.Array() {
		list = append(list, scalar(c))
	}
	return list
}

// flag reads a boolean; anything else is nil.
func flag(c *rawjson.Cursor) *bool {
	if c.Kind() != rawjson.Bool {
		return nil
	}
	return new(c.Bool())
}

// count reads a number that is not negative; anything else is 0.
func count(c *rawjson.Cursor) int64 {
	if c.Kind() != rawjson.Number {
		return 0
	}
	n, err := strconv.ParseFloat(string(c.Raw()), 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0
	}
	return int64(n)
}

// countIn reads a member of an object as count does.
func countIn(c *rawjson.Cursor, name string) (n int64) {
	for key := range members(c) {
		if string(key) == name {
			n = count(c)
		}
	}
	return n
}

// DecodeNativeModels reads LM Studio's own list of its models. A model that is loaded is there first,
// with the limit of the loaded instance, which is often lower than the model's.
func DecodeNativeModels(body []byte) (models []perigee.Model, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, err
	}
	c := rawjson.NewCursor(body)
	for key := range members(c) {
		if string(key) == "models" && c.Kind() == rawjson.Array {
			for range c.Array() {
				models = append(models, decodeNativeModel(c)...)
			}
		}
	}
	return models, c.Err()
}

// decodeNativeModel reads one model of LM Studio. Each of its loaded instances has a name of its own.
func decodeNativeModel(c *rawjson.Cursor) (list []perigee.Model) {
	var m perigee.Model
	for key := range members(c) {
		switch string(key) {
		case "key":
			m.ID = scalar(c)
		case "display_name":
			m.DisplayName = scalar(c)
		case "max_context_length":
			m.Context = count(c)
		case "capabilities":
			for key := range members(c) {
				switch string(key) {
				case "vision":
					m.Vision = flag(c)
				case "trained_for_tool_use":
					m.Tools = flag(c)
				case "reasoning":
					m.Thinking = c.Kind() == rawjson.Object
				}
			}
		case "loaded_instances":
			if c.Kind() == rawjson.Array {
				for range c.Array() {
					list = append(list, decodeInstance(c))
				}
			}
		}
	}
	for i := range list {
		loaded := m
		loaded.ID, loaded.Context = cmp.Or(list[i].ID, m.ID), cmp.Or(list[i].Context, m.Context)
		list[i] = loaded
	}
	return append(list, m)
}

// decodeInstance reads the name and the limit of a model that LM Studio has loaded.
func decodeInstance(c *rawjson.Cursor) (m perigee.Model) {
	for key := range members(c) {
		switch string(key) {
		case "id":
			m.ID = scalar(c)
		case "config":
			m.Context = countIn(c, "context_length")
		}
	}
	return m
}

// DecodeProperties reads /props of llama.cpp, and returns what it has about the model that is loaded.
func DecodeProperties(body []byte) (m perigee.Model, err error) {
	if err := rawjson.Check(body); err != nil {
		return m, err
	}
	c := rawjson.NewCursor(body)
	for key := range members(c) {
		switch string(key) {
		case "default_generation_settings":
			m.Context = countIn(c, "n_ctx")
		case "modalities":
			for key := range members(c) {
				if string(key) == "vision" {
					m.Vision = flag(c)
				}
			}
		}
	}
	return m, c.Err()
}
