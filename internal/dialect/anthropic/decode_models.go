package anthropic

import (
	"time"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// DecodeModels reads a page of the list of a provider's models. next is the id after which the next
// page begins, or empty if there is none.
func DecodeModels(body []byte) (models []perigee.Model, next string, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, "", err
	}
	c := rawjson.NewCursor(body)
	more, last := false, ""
	c.Read(nil, "has_more", &more, "last_id", func() { last = textOf(c) }, "data", func() {
		for range c.Array() {
			if m := readModel(c); m.ID != "" {
				models = append(models, m)
			}
		}
	})
	if more {
		next = last
	}
	return models, next, c.Err()
}

// readModel reads one model. A list of a compatible server may have names only.
func readModel(c *rawjson.Cursor) (m perigee.Model) {
	created := ""
	c.Read(nil, "id", &m.ID, "display_name", func() { m.DisplayName = textOf(c) }, "created_at", func() { created = textOf(c) },
		"max_input_tokens", &m.Context, "max_tokens", &m.Output, "capabilities", func() { readCapabilities(c, &m) })
	if at, err := time.Parse(time.RFC3339, created); err == nil && at.Unix() > 0 {
		m.Created = at.UTC()
	}
	return m
}

// readCapabilities reads how the model thinks, and whether it takes images. A capability is an object that has supported, and
// further capabilities as its members.
func readCapabilities(c *rawjson.Cursor, m *perigee.Model) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	for key := range c.Object() {
		switch string(key) {
		case "thinking":
			for key := range members(c) {
				switch string(key) {
				case "supported":
					m.Thinking = c.Kind() == rawjson.Bool && c.Bool()
				case "types":
					m.ThinkingTypes = supported(c)
				}
			}
		case "effort":
			m.Efforts = supported(c)
		case "image_input":
			for key := range members(c) {
				if string(key) == "supported" && c.Kind() == rawjson.Bool {
					m.Vision = new(c.Bool())
				}
			}
		}
	}
}

// supported returns the names of the members that are supported capabilities. It is not nil.
func supported(c *rawjson.Cursor) []string {
	list := []string{}
	for key := range members(c) {
		name, yes := string(key), false
		if c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			if string(key) == "supported" && c.Kind() == rawjson.Bool {
				yes = c.Bool()
			}
		}
		if yes {
			list = append(list, name)
		}
	}
	return list
}

// members iterates over an object, and over nothing for another value.
func members(c *rawjson.Cursor) func(yield func([]byte) bool) {
	if c.Kind() != rawjson.Object {
		return func(func([]byte) bool) {}
	}
	return c.Object()
}

// DecodeTokenCount reads the answer of count_tokens.
func DecodeTokenCount(answer []byte) (*perigee.TokenCount, error) {
	if err := rawjson.Check(answer); err != nil {
		return nil, err
	}
	count := &perigee.TokenCount{}
	c := rawjson.NewCursor(answer)
	c.Read(nil, "input_tokens", &count.Total)
	return count, c.Err()
}
