package prepare

import (
	"encoding/json"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/rawjson"
)

const imageConfig = "imageConfig"

// drawing keeps what is asked of a picture to what can be had, and away from models that do not draw.
func (g *gateway) drawing(gen *perigee.Generation) {
	at := slices.IndexFunc(gen.Extra, func(f perigee.Field) bool { return f.Name == imageConfig })
	if g.spec.Family == models.Image && gen.ResponseMIME != "" {
		gen.ResponseMIME = ""
	}
	if at < 0 {
		return
	}
	var config []byte
	if g.spec.Family == models.Image {
		config = g.imageConfig(gen.Extra[at].Value)
	} else {
		g.notes.add(perigee.NoteDropped, "generationConfig."+imageConfig)
	}
	extra := slices.Delete(slices.Clone(gen.Extra), at, at+1)
	if config != nil {
		extra = slices.Insert(extra, at, perigee.Field{Name: imageConfig, Value: config})
	}
	gen.Extra = extra
}

var (
	aspectRatios = []string{"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"}
	imageSizes   = []string{"1K", "2K", "4K"}
)

// imageConfig returns the form of a picture without what the model cannot do; nil: nothing is left.
func (g *gateway) imageConfig(raw json.RawMessage) []byte {
	if !isObject(raw) {
		return nil
	}
	out := []byte{'{'}
	keep := func(name, value string, legal []string) {
		if !slices.Contains(legal, value) {
			g.notes.add(perigee.NoteDropped, imageConfig+"."+name+" "+clip(value))
			return
		}
		out = rawjson.AppendString(separate(out, 1), name)
		out = rawjson.AppendString(append(out, ':'), value)
	}
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		name := string(key)
		switch {
		case c.Kind() != rawjson.String:
			g.notes.add(perigee.NoteDropped, imageConfig+"."+clip(name))
		case name == "aspectRatio" || name == "aspect_ratio":
			keep("aspectRatio", c.String(), aspectRatios)
		case name == "imageSize" || name == "image_size":
			keep("imageSize", strings.ToUpper(c.String()), imageSizes)
		default:
			g.notes.add(perigee.NoteDropped, imageConfig+"."+clip(name))
		}
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}
