package responses

import (
	"encoding/json"

	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// itemReference is the type of an item that refers to a stored one.
const itemReference = "item_reference"

// inspect reads as much of the input as has to be known before a provider gets the body unread. It
// forbids media that are files of the provider's machine, and reports whether the input has
// references to items, which may be stored here, and whether it has items of reasoning. Values of
// the wrong type are left to the provider.
func (d *decoder) inspect() (refers, reasons bool) {
	if d.out.input == nil {
		return false, false
	}
	c := d.doc.Value(d.out.input)
	if c.Kind() != rawjson.Array {
		return false, false
	}
	for range c.Array() {
		if c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			switch string(key) {
			case "type":
				kind := alias(c)
				refers, reasons = refers || kind == itemReference, reasons || kind == "reasoning"
			case "content", "output":
				d.inspectContent(c)
			}
		}
	}
	return refers, reasons
}

// inspectContent forbids media among the parts of a message or of a tool result, and the screenshot
// that the result of a computer is.
func (d *decoder) inspectContent(c *rawjson.Cursor) {
	switch c.Kind() {
	case rawjson.Object:
		d.inspectPart(c, "computer_screenshot", "")
	case rawjson.Array:
		for range c.Array() {
			if c.Kind() == rawjson.Object {
				d.inspectPart(c, "input_image", "input_file")
			}
		}
	}
}

// inspectPart forbids media in a part that is of one of two types.
func (d *decoder) inspectPart(c *rawjson.Cursor, imageKind, fileKind string) {
	var kind string
	var image, file json.RawMessage
	for key := range c.Object() {
		switch string(key) {
		case "type":
			kind = alias(c)
		case "image_url":
			image = c.Raw()
		case "file_url":
			file = c.Raw()
		}
	}
	switch kind {
	case "":
	case imageKind:
		d.inspectMedia(kind, image)
	case fileKind:
		d.inspectMedia(kind, file)
	}
}

// inspectMedia forbids an address that a server may open as a file of its own.
func (d *decoder) inspectMedia(kind string, address json.RawMessage) {
	c := rawjson.NewCursor(address)
	if address == nil || c.Kind() == rawjson.Null {
		return
	}
	text := c.Alias()
	err := c.Err()
	if err == nil && text != "" {
		err = dialect.CheckMedia(text)
	}
	if err != nil {
		d.forbid(openai.Wrong("input[].content["+kind+"]", "%v", err))
	}
}

// alias reads a string, which may alias the text. It is empty for a value of another kind.
func alias(c *rawjson.Cursor) string {
	if c.Kind() != rawjson.String {
		return ""
	}
	return c.Alias()
}
