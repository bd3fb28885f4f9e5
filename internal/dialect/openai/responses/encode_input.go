package responses

import (
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// An inputWriter is the state of the input while it is written.
type inputWriter struct {
	role    string          // of the open message; empty if none is open
	thought []*perigee.Part // reasoning that waits for the item that it belongs to
	custom  map[string]bool // the names of the tools that take a text
	calls   map[string]bool // the ids of their calls
	images  int             // of the model
}

// conversation writes instructions and input. A system instruction of several parts is a message,
// so that the parts stay apart, and so is one that is all of the prompt, because there is no request
// without input.
func (w *requestWriter) conversation(p *perigee.Prompt) {
	for i := range p.Tools {
		if isCustom(&p.Tools[i]) {
			if w.input.custom == nil {
				w.input.custom, w.input.calls = map[string]bool{}, map[string]bool{}
			}
			w.input.custom[p.Tools[i].Function.Name] = true
		}
	}
	system := p.System
	if system != nil && len(system.Parts) == 1 && system.Parts[0].Kind == perigee.PartText && len(p.Contents) > 0 {
		w.Key("instructions").Form(system.Parts[0].Text.Form())
		system = nil
	}
	w.Key("input").Array()
	if system != nil {
		w.content(perigee.RoleSystem, system.Parts)
	}
	for i := range p.Contents {
		w.content(p.Contents[i].Role, p.Contents[i].Parts)
	}
	w.EndArray()
}

// content writes the items of a content: a message for the texts and media between other items.
func (w *requestWriter) content(role string, parts []perigee.Part) {
	switch role {
	case perigee.RoleModel:
		role = "assistant"
	case "":
		role = perigee.RoleUser
	}
	for i := range parts {
		w.part(role, &parts[i])
	}
	w.closeMessage()
}

func (w *requestWriter) part(role string, p *perigee.Part) {
	model := role == "assistant"
	switch {
	case p.Thought || p.Kind == perigee.PartRedacted:
		if p.Signature != "" && (p.Kind == perigee.PartText || p.Kind == perigee.PartRedacted) {
			w.closeMessage()
			w.input.thought = append(w.input.thought, p)
		}
	case p.Kind == perigee.PartText && !p.Text.Empty():
		kind := "input_text"
		if model {
			kind = "output_text"
		}
		w.openMessage(role)
		w.textPart(kind, p.Text)
	case p.Kind == perigee.PartCall:
		w.item(true)
		w.call(p.Call)
	case p.Kind == perigee.PartResponse:
		w.item(false)
		w.result(p.Response)
	case p.Kind == perigee.PartBlob && model:
		w.item(true)
		w.input.images++
		w.Object().Members(`"type":"image_generation_call"`).Key("id").String("ig_" + strconv.Itoa(w.input.images)).Members(`"status":"completed"`)
		w.Key("result").String(p.Blob.Data).EndObject()
	case !model && (p.Kind == perigee.PartBlob || p.Kind == perigee.PartFile):
		w.openMessage(role)
		w.media(p)
	}
}

// openMessage begins a message of a role, unless one is open.
func (w *requestWriter) openMessage(role string) {
	if w.input.role == role {
		return
	}
	w.item(role == "assistant")
	w.input.role = role
	w.Object().Members(`"type":"message"`).Key("role").String(role).Key("content").Array()
}

func (w *requestWriter) closeMessage() {
	if w.input.role != "" {
		w.EndArray().EndObject()
		w.input.role = ""
	}
}

// item prepares the next item. Reasoning is written before the item of the model that follows it;
// without one it would be refused.
func (w *requestWriter) item(model bool) {
	w.closeMessage()
	for _, p := range w.input.thought {
		if !model {
			break
		}
		w.Object().Members(`"type":"reasoning"`).Key("summary").Array()
		if !p.Text.Empty() {
			w.textPart("summary_text", p.Text)
		}
		w.EndArray().Key("encrypted_content").String(p.Signature).EndObject()
	}
	w.input.thought = w.input.thought[:0]
}

func (w *requestWriter) textPart(kind string, text perigee.Text) {
	w.Object().Key("type").String(kind).Key("text").Form(text.Form()).EndObject()
}

// call writes a call of a function, or of a tool that takes a text.
func (w *requestWriter) call(call *perigee.FunctionCall) {
	if w.input.custom[call.Name] {
		w.input.calls[call.ID] = true
		w.Object().Members(`"type":"custom_tool_call"`).Key("call_id").String(call.ID).Key("name").String(call.Name)
		w.Key("input").Raw(openai.UnwrapJSON("input", call.Args)).EndObject()
		return
	}
	args := call.Args
	if len(args) == 0 {
		args = openai.EmptyArgs
	}
	w.Object().Members(`"type":"function_call"`).Key("call_id").String(call.ID).Key("name").String(call.Name)
	w.Key("arguments").String(string(args)).EndObject()
}

// result writes the result of a call: a string, or a list if it has media.
func (w *requestWriter) result(r *perigee.FunctionResponse) {
	kind := "function_call_output"
	if w.input.calls[r.ID] {
		kind = "custom_tool_call_output"
	}
	w.Object().Key("type").String(kind).Key("call_id").String(r.ID).Key("output")
	text := dialect.ResultText(r)
	if len(r.Media) == 0 {
		w.Raw(text).EndObject()
		return
	}
	w.Array()
	if inside := rawjson.Inside(text); inside != "" {
		w.textPart("input_text", perigee.Escaped(inside))
	}
	for i := range r.Media {
		w.media(&r.Media[i])
	}
	w.EndArray().EndObject()
}

// media writes an image, an audio or a file, as data or by its address, or the text in place of one
// that the server cannot read.
func (w *requestWriter) media(p *perigee.Part) {
	if p.Kind == perigee.PartText {
		w.textPart("input_text", p.Text)
		return
	}
	if f := p.File; p.Kind == perigee.PartFile {
		if strings.HasPrefix(f.MIME, "image/") {
			w.Object().Members(`"type":"input_image"`).Key("image_url").String(f.URI)
			w.text("detail", string(f.Detail))
		} else {
			w.Object().Members(`"type":"input_file"`).Key("file_url").String(f.URI)
		}
		w.EndObject()
		return
	}
	b := p.Blob
	kind, subtype, _ := strings.Cut(b.MIME, "/")
	prefix := "data:" + b.MIME + ";base64,"
	switch kind {
	case "image":
		w.Object().Members(`"type":"input_image"`).Key("image_url").Prefixed(prefix, b.Data)
		w.text("detail", string(b.Detail))
	case "audio":
		w.Object().Members(`"type":"input_audio"`).Key("input_audio").Object().Key("data").String(b.Data)
		w.Key("format").String(audioFormat(subtype)).EndObject()
	default:
		w.Object().Members(`"type":"input_file"`).Key("filename").String("file." + extension(subtype))
		w.Key("file_data").Prefixed(prefix, b.Data)
	}
	w.EndObject()
}

// audioFormat returns the name that the API has for an audio format.
func audioFormat(subtype string) string {
	switch subtype {
	case "mpeg":
		return "mp3"
	case "pcm":
		return "pcm16"
	}
	return subtype
}

// extension returns the extension of a file: the API wants a name for each.
func extension(subtype string) string {
	switch subtype {
	case "plain":
		return "txt"
	case "markdown":
		return "md"
	}
	return subtype
}
