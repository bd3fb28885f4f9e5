package openai

import (
	"cmp"
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
		case "context_length", "max_model_len", "context_window", "max_context_length":
			m.Context = cmp.Or(m.Context, count(c))
		case "max_output_tokens", "max_completion_tokens":
			m.Output = cmp.Or(m.Output, count(c))
		case "top_provider":
			m.Output = cmp.Or(m.Output, countIn(c, "max_completion_tokens"))
		case "meta":
			trained = countIn(c, "n_ctx_train")
		case "reasoning":
			m.Thinking = m.Thinking || c.Kind() == rawjson.Object
		case "supported_parameters":
			if c.Kind() == rawjson.Array {
				for range c.Array() {
					m.Thinking = m.Thinking || scalar(c) == "reasoning"
				}
			}
		}
	}
	m.Context = cmp.Or(m.Context, trained)
	return m
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
	if c.Kind() != rawjson.Object {
		return 0
	}
	for key := range c.Object() {
		if string(key) == name {
			n = count(c)
		}
	}
	return n
}
