package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// maxImages is the maximum number of images of one request.
const maxImages = 10

// An ImagesRequest is a request to a model that generates images.
type ImagesRequest struct {
	*perigee.Request
	Count int  // the number of requested images; models generate one per call
	Links bool // the client wants URLs, not the images themselves
}

// DecodeImages reads the body of POST /v1/images/generations. A provider with this API gets the body
// unchanged, and checks what the prompt for any other needs.
func DecodeImages(origin perigee.Origin) (*ImagesRequest, error) {
	index, c, err := OpenBody(origin.Body)
	if err != nil {
		return nil, err
	}
	if err := checkMedia(index); err != nil {
		return nil, err
	}
	images, model := &ImagesRequest{Count: 1}, ""
	for key := range c.Object() {
		switch kind := c.Kind(); {
		case kind == rawjson.Null:
		case string(key) == "model":
			model = strings.TrimPrefix(c.String(), "models/")
		case string(key) == "n":
			images.Count = int(min(max(count(c), 1), maxImages))
		case string(key) == "response_format" && kind == rawjson.String:
			images.Links = c.String() == "url"
		case string(key) == "stream" && c.Bool():
			return nil, Wrong("stream", "images come whole, not in a stream")
		}
	}
	if c.Err() != nil {
		return nil, InvalidBody(c.Err())
	}
	origin.Dialect = perigee.DialectOpenAIImages
	images.Request = perigee.NewRequest(origin, model, false, func() (*perigee.Prompt, error) { return imagePrompt(origin.Body) })
	return images, nil
}

// imagePrompt returns the prompt for one image.
func imagePrompt(body []byte) (*perigee.Prompt, error) {
	d := &imageDecoder{c: rawjson.NewCursor(body)}
	for key := range d.c.Object() {
		if d.c.Kind() != rawjson.Null {
			d.field(key)
		}
	}
	switch {
	case d.c.Err() != nil:
		return nil, InvalidBody(d.c.Err())
	case d.err == nil && d.text == "":
		d.refuse("prompt", "want a text")
	}
	if d.err != nil {
		return nil, d.err
	}
	prompt := &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain(d.text)}}}}}
	prompt.Generation.Modalities = []string{"IMAGE"}
	if d.config != nil {
		prompt.Generation.Extra = perigee.Fields{{Name: "imageConfig", Value: d.config}}
	}
	prompt.Lost = d.notes.List()
	return prompt, nil
}

type imageDecoder struct {
	c      *rawjson.Cursor
	notes  perigee.Notes
	err    *perigee.Error
	text   string
	config json.RawMessage
}

func (d *imageDecoder) refuse(param, format string, args ...any) {
	if d.err == nil {
		d.err = Wrong(param, format, args...)
	}
}

func (d *imageDecoder) field(key []byte) {
	switch name := string(key); name {
	case "model", "stream": // read before
	case "prompt":
		d.text = d.c.String()
	case "n":
		if n := d.c.Int64(); n < 1 || n > maxImages {
			d.refuse("n", "want 1 to %d, found %d", maxImages, n)
		}
	case "size":
		d.size(d.c.String())
	case "response_format":
		if format := d.c.String(); format != "url" && format != "b64_json" {
			d.refuse("response_format", "want b64_json or url, found %q", Brief(format))
		}
	case "quality", "background", "moderation", "style", "output_format", "output_compression", "partial_images":
		if d.c.Kind() != rawjson.String || d.c.String() != "auto" {
			d.notes.Dropped(name)
		}
	case "user": // for the vendor's records
	default:
		d.notes.Unknown("", key)
	}
}

// ratios are the aspect ratios that the models support.
var ratios = []struct{ width, height int }{
	{1, 1}, {2, 3}, {3, 2}, {3, 4}, {4, 3}, {4, 5}, {5, 4}, {9, 16}, {16, 9}, {21, 9},
}

// size maps a size in pixels to the nearest aspect ratio, and to the next image size if it is
// larger than the default.
func (d *imageDecoder) size(size string) {
	if size == "auto" {
		return
	}
	w, h, _ := strings.Cut(strings.ToLower(size), "x")
	width, errWidth := strconv.Atoi(w)
	height, errHeight := strconv.Atoi(h)
	if errWidth != nil || errHeight != nil || width < 1 || height < 1 {
		d.refuse("size", "want auto or a size such as 1024x1024, found %q", Brief(size))
		return
	}
	best := ratios[0]
	off := func(r struct{ width, height int }) float64 {
		return math.Abs(math.Log(float64(width) * float64(r.height) / (float64(height) * float64(r.width))))
	}
	for _, r := range ratios {
		if off(r) < off(best) {
			best = r
		}
	}
	if off(best) > 0.01 {
		d.notes.Mapped(fmt.Sprintf("size %dx%d to %d:%d", width, height, best.width, best.height))
	}
	var config rawjson.Writer
	config.Object().Key("aspectRatio").String(fmt.Sprintf("%d:%d", best.width, best.height))
	switch longest := max(width, height); {
	case longest > 3000:
		config.Members(`"imageSize":"4K"`)
	case longest > 1800:
		config.Members(`"imageSize":"2K"`)
	}
	d.config = config.EndObject().Buf
}

// Images collects the images of one or more answers. If the provider sent a frame, that is the answer.
type Images struct {
	Created int64 // Unix time
	// Save stores an image and returns its URL. If it is nil, the answer contains the image itself.
	Save func(blob *perigee.Blob) (url string)

	frame  []byte
	data   rawjson.Writer // the elements of data
	count  int
	text   string // the text of the model instead
	finish perigee.Finish
	usage  perigee.Usage // of the finished answers
	latest perigee.Usage // of the current answer
}

// shownText bounds the model's text that is kept for an error.
const shownText = 256

// Add takes the next event.
func (w *Images) Add(ev *perigee.Event) {
	switch ev.Kind {
	case perigee.EventFrame:
		w.frame = slices.Clone(ev.Frame)
	case perigee.EventStart:
		w.next()
	case perigee.EventText:
		if len(w.text) < shownText {
			w.text += ev.Text
		}
	case perigee.EventFinish:
		w.finish = *ev.Finish
	case perigee.EventUsage:
		w.latest = *ev.Usage
	case perigee.EventBlob:
		if ev.Thought || w.frame != nil { // a draft, or in the frame
			return
		}
		if w.Save != nil {
			w.data.Object().Key("url").String(w.Save(ev.Blob)).EndObject()
		} else {
			w.data.Object().Key("b64_json").String(ev.Blob.Data).EndObject()
		}
		w.count++
	}
}

// next adds up the usage of the answer that is over.
func (w *Images) next() {
	w.usage.Input += w.latest.Input
	w.usage.Output += w.latest.Output
	w.latest = perigee.Usage{}
}

// Complete reports whether the answer has all images: the provider makes them in one call.
func (w *Images) Complete() bool { return w.frame != nil }

// Err returns why there is no image, or nil if there is one.
func (w *Images) Err() error {
	switch {
	case w.count > 0, w.frame != nil:
		return nil
	case w.finish.Kind == perigee.FinishFiltered:
		return Invalid("the model did not generate this image: %s", w.finish.Reason).WithHint("change the prompt")
	case w.text != "":
		return Invalid("the model answered with text: %s", Brief(w.text)).WithHint("use an image model")
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the model generated no image").WithHint("try again")
}

// Bytes returns the whole answer.
func (w *Images) Bytes() []byte {
	if w.frame != nil {
		return w.frame
	}
	w.next()
	out := rawjson.Writer{Buf: make([]byte, 0, len(w.data.Buf)+256)}
	out.Object().Key("created").Int(w.Created).Key("data").Array().Elements(w.data.Buf).EndArray()
	out.Key("usage").Object().Key("input_tokens").Int(w.usage.Input).Key("output_tokens").Int(w.usage.Output)
	return out.Key("total_tokens").Int(w.usage.Total()).EndObject().EndObject().Buf
}
