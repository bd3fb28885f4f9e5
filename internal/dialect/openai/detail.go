package openai

import (
	"encoding/json"
	"strings"

	"perigee"
)

// A Detail is the detail that the images of a request ask for. The provider has one resolution for
// all images of a request, which is the finest that any of them asks for. The zero value asks for
// nothing.
type Detail struct{ finest string }

// Take adds the detail of the image at path, which is empty if it has none.
func (d *Detail) Take(detail, path string, notes *perigee.Notes) {
	switch detail {
	case "", "auto":
		detail = "auto"
	case "low", "high":
	case "original": // finer than there is
		detail = "high"
		notes.Mapped(path + " original to high")
	default:
		notes.Dropped(path + " " + Brief(detail))
		return
	}
	if d.finest != "" && d.finest != detail {
		notes.Mapped(path)
	}
	if d.finest == "" || d.finest == "low" || detail == "high" {
		d.finest = detail
	}
}

// Apply sets the resolution where one was asked for.
func (d *Detail) Apply(g *perigee.Generation) {
	if d.finest == "low" || d.finest == "high" {
		value := json.RawMessage(`"MEDIA_RESOLUTION_` + strings.ToUpper(d.finest) + `"`)
		g.Extra = append(g.Extra, perigee.Field{Name: "mediaResolution", Value: value})
	}
}
