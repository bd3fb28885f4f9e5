package responses

import (
	"fmt"

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
	media := dialect.MayHaveMedia(d.doc)
	if media && d.rawTools != nil {
		d.inspectTools(d.doc.Value(d.rawTools), "tools")
	}
	if media && d.rawPrompt != nil {
		d.inspectPrompt(d.doc.Value(d.rawPrompt))
	}
	if d.out.input == nil {
		return false, false
	}
	c := d.doc.Value(d.out.input)
	for i := range c.List() {
		if c.Kind() != rawjson.Object {
			continue
		}
		kind := kindOf(*c)
		refers, reasons = refers || kind == itemReference, reasons || kind == "reasoning"
		if !media {
			continue
		}
		for key := range c.Object() {
			if string(key) == "tools" {
				d.inspectTools(c, fmt.Sprintf("input[%d].tools", i))
			} else if path, err := dialect.CheckMember(c, key); err != nil {
				d.forbid(openai.Wrong(fmt.Sprintf("input[%d]%s", i, path), "%v", err))
			}
		}
	}
	return refers, reasons
}

// inspectTools forbids masks of images that are files of the provider's machine, in a list of tools at
// a path.
func (d *decoder) inspectTools(c *rawjson.Cursor, at string) {
	for i := range c.List() {
		if c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			if string(key) != "input_image_mask" {
				continue
			}
			if path, err := dialect.CheckMember(c, key); err != nil {
				d.forbid(openai.Wrong(fmt.Sprintf("%s[%d]%s", at, i, path), "%v", err))
			}
		}
	}
}

// inspectPrompt forbids such media in the variables of a prompt that the provider has stored.
func (d *decoder) inspectPrompt(c *rawjson.Cursor) {
	if c.Kind() != rawjson.Object {
		return
	}
	for key := range c.Object() {
		if string(key) != "variables" || c.Kind() != rawjson.Object {
			continue
		}
		for name := range c.Object() {
			if path, err := dialect.CheckParts(c); err != nil {
				d.forbid(openai.Wrong("prompt.variables."+openai.Brief(string(name))+path, "%v", err))
			}
		}
	}
}
