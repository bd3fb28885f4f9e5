package adapt

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
)

const jsonMIME = "application/json"

// generation keeps the settings within the limits of the provider and the model.
func (a *adapter) generation() {
	gen := &a.prompt.Generation
	a.options()
	gen.Extra = a.supported(gen.Extra, "generationConfig.", generationMembers)
	if a.gateway {
		a.numbers(gen)
		a.words(gen)
		a.drawing(gen)
		a.answerSchema(gen)
	}
	if n, most := gen.MaxOutputTokens, a.spec.Output; n != nil && most > 0 && *n > most {
		a.notes.Mapped(fmt.Sprintf("max output tokens %d to %d", *n, most))
		gen.MaxOutputTokens = &most
	}
	if (gen.ResponseSchema != nil || gen.ResponseJSON != nil) && gen.ResponseMIME == "" {
		gen.ResponseMIME = jsonMIME // without which the schema is ignored
	}
	if !a.gateway && a.draws() && gen.Candidates != nil && *gen.Candidates > 1 {
		a.notes.Dropped("further candidates for an image model")
		gen.Candidates = nil
	}
	a.think(gen)
}

// withoutJSON drops the response format where the model cannot have one.
func (a *adapter) withoutJSON(where string) {
	gen := &a.prompt.Generation
	if gen.ResponseMIME != jsonMIME && gen.ResponseSchema == nil && gen.ResponseJSON == nil {
		return
	}
	a.notes.Dropped("response format " + where)
	gen.ResponseMIME, gen.ResponseSchema, gen.ResponseJSON = "", nil, nil
}

// numbers drops those that do not fit the gateway's fields.
func (a *adapter) numbers(gen *perigee.Generation) {
	if n := gen.MaxOutputTokens; n != nil && *n < 1 {
		a.notes.Dropped(fmt.Sprintf("max output tokens %d", *n))
		gen.MaxOutputTokens = nil
	} else if n != nil && *n > math.MaxInt32 && a.spec.Output == 0 {
		gen.MaxOutputTokens = nil // as good as no limit
	}
	if n := gen.Candidates; n != nil && *n != 1 {
		if *n > 1 {
			a.notes.Dropped("candidates after 1") // the gateway always returns one
		}
		gen.Candidates = new(int64(1))
	}
}

// words drops empty stop sequences, and kinds of answers that the model does not give.
func (a *adapter) words(gen *perigee.Generation) {
	if gen.ResponseMIME == undefined {
		gen.ResponseMIME = ""
	}
	gen.Stop = withoutWords(gen.Stop, func(s string) bool {
		return s == undefined || s == "" || a.claude() && strings.TrimSpace(s) == ""
	})
	gen.Modalities = withoutWords(gen.Modalities, func(m string) bool {
		if strings.EqualFold(m, "TEXT") || a.draws() && strings.EqualFold(m, "IMAGE") {
			return false
		}
		if m != undefined {
			a.notes.Dropped("response modality " + clip(m))
		}
		return true
	})
}

// withoutWords returns a copy of the list without the words that drop selects; nil if none is left.
func withoutWords(list []string, drop func(string) bool) (kept []string) {
	for _, word := range list {
		if !drop(word) {
			kept = append(kept, word)
		}
	}
	return kept
}

// RefuseImages returns the error for a request for images alone, if models of the family generate
// none, and nil otherwise. It costs no call, and another upstream may have images. A conversation
// that asks for images beside text is answered with text instead.
func RefuseImages(req *perigee.Request, family models.Family) error {
	if req.Dialect != perigee.DialectOpenAIImages || family == models.Image || family == models.Other {
		return nil
	}
	e := perigee.Errorf(perigee.ClassUnimplemented, "the model %q generates no images", clip(req.Model)).
		WithHint("name an image model: perigee models lists the available models")
	e.Model = req.Model
	return e
}

const imageConfig = "imageConfig"

// drawing keeps the image settings that the model has, and drops them for models that do not
// generate images.
func (a *adapter) drawing(gen *perigee.Generation) {
	if a.draws() {
		gen.ResponseMIME = ""
	}
	for i, f := range gen.Extra {
		if f.Name != imageConfig {
			continue
		}
		// The fields are a copy, which supported has made.
		if gen.Extra[i].Value = a.imageConfig(f.Value); gen.Extra[i].Value == nil {
			gen.Extra = slices.Delete(gen.Extra, i, i+1)
		}
		return
	}
}

var (
	aspectRatios = []string{"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"}
	imageSizes   = []string{"1K", "2K", "4K"}
)

// imageConfig returns the image settings without those that the model does not have; nil if nothing
// is left.
func (a *adapter) imageConfig(raw json.RawMessage) []byte {
	if !a.draws() {
		a.notes.Dropped("generationConfig." + imageConfig)
		return nil
	}
	if !isObject(raw) {
		return nil
	}
	w, empty := new(rawjson.Writer).Object(), true
	keep := func(name, value string, legal []string) {
		if !slices.Contains(legal, value) {
			a.notes.Dropped(imageConfig + "." + name + " " + clip(value))
			return
		}
		w.Key(name).String(value)
		empty = false
	}
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		name := string(key)
		switch text := c.Kind() == rawjson.String; {
		case text && (name == "aspectRatio" || name == "aspect_ratio"):
			keep("aspectRatio", c.String(), aspectRatios)
		case text && (name == "imageSize" || name == "image_size"):
			keep("imageSize", strings.ToUpper(c.String()), imageSizes)
		default:
			a.notes.Dropped(imageConfig + "." + clip(name))
		}
	}
	if empty {
		return nil
	}
	return w.EndObject().Buf
}
