package ollama

import (
	"encoding/json"
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// Dialect is the dialect of this API.
const Dialect perigee.Dialect = "ollama"

// An Envelope has the members of a request beside its prompt.
type Envelope struct {
	Model     string
	Stream    bool
	Context   int64  // how many tokens the model is loaded with
	KeepAlive string // how long the model stays loaded; the server decides if it is empty
}

// EncodeRequest writes a prompt as the body of POST /api/chat. With truncate and shift off, the server
// cuts nothing, neither the conversation before the answer nor its beginning while the answer grows.
// Equal prompts give equal bytes.
func EncodeRequest(p *perigee.Prompt, e Envelope) []byte {
	pieces, _ := EncodePieces(p, e, func(size int) []byte { return make([]byte, 0, size) })
	return slices.Concat(pieces...)
}

// EncodePieces returns the result of EncodeRequest in pieces. Long texts of a large prompt are not
// copied: their pieces alias the prompt. All other pieces are in buffer, which is from get, a
// function that returns an empty slice with at least the given capacity.
func EncodePieces(p *perigee.Prompt, e Envelope, get func(size int) []byte) (pieces [][]byte, buffer []byte) {
	var w requestWriter
	size, refer := dialect.PiecesSize(p)
	w.Buf, w.Refer = get(size), refer
	w.request(p, e)
	return w.Pieces(), w.Buf
}

// A requestWriter writes one request.
type requestWriter struct{ rawjson.Writer }

func (w *requestWriter) request(p *perigee.Prompt, e Envelope) {
	w.Object().Key("model").String(e.Model).Key("messages").Array()
	if p.System != nil {
		w.message("system", p.System.Parts)
	}
	for i := range p.Contents {
		w.content(&p.Contents[i])
	}
	w.EndArray().Key("stream").Bool(e.Stream)
	w.tools(p.Tools)
	w.answer(&p.Generation)
	w.Members(`"truncate":false,"shift":false`)
	if e.KeepAlive != "" {
		w.Key("keep_alive").String(e.KeepAlive)
	}
	w.options(&p.Generation, e.Context)
	w.EndObject()
}

// content writes the messages of a content. Each tool result is a message, before the other parts.
func (w *requestWriter) content(c *perigee.Content) {
	switch {
	case c.Role == perigee.RoleModel:
		w.assistant(c.Parts)
		return
	case c.Instructs():
		w.message("system", c.Parts)
		return
	}
	results := 0
	for results < len(c.Parts) && c.Parts[results].Kind == perigee.PartResponse {
		w.result(c.Parts[results].Response)
		results++
	}
	if results < len(c.Parts) {
		w.message("user", c.Parts[results:])
	}
}

// message writes a message of texts and images.
func (w *requestWriter) message(role string, parts []perigee.Part) {
	w.Object().Key("role").String(role)
	w.text("content", parts, func(p *perigee.Part) bool { return p.Kind == perigee.PartText })
	images := 0
	for i := range parts {
		if parts[i].Kind != perigee.PartBlob {
			continue
		}
		if images++; images == 1 {
			w.Key("images").Array()
		}
		w.String(parts[i].Blob.Data)
	}
	if images > 0 {
		w.EndArray()
	}
	w.EndObject()
}

// text writes a member with the selected texts, one line for each.
func (w *requestWriter) text(name string, parts []perigee.Part, selects func(*perigee.Part) bool) {
	texts, size, last := 0, 0, 0
	for i := range parts {
		if selects(&parts[i]) {
			texts, last = texts+1, i
			size += parts[i].Text.Size()
		}
	}
	w.Key(name)
	switch texts {
	case 0:
		w.Members(`""`)
		return
	case 1:
		w.Form(parts[last].Text.Form())
		return
	}
	lines := rawjson.NewLineJoiner(size + texts)
	for i := range parts {
		if selects(&parts[i]) {
			lines.Add(parts[i].Text.Form())
		}
	}
	w.Raw(lines.JSON())
}

// assistant writes a message of the model: its thinking, text and calls.
func (w *requestWriter) assistant(parts []perigee.Part) {
	thought := func(p *perigee.Part) bool { return p.Thought && p.Kind == perigee.PartText }
	w.Members(`{"role":"assistant"`)
	if slices.ContainsFunc(parts, func(p perigee.Part) bool { return thought(&p) && !p.Text.Empty() }) {
		w.text("thinking", parts, thought)
	}
	w.text("content", parts, func(p *perigee.Part) bool { return !p.Thought && p.Kind == perigee.PartText })
	calls := int64(0)
	for i := range parts {
		if parts[i].Kind != perigee.PartCall {
			continue
		}
		if calls == 0 {
			w.Key("tool_calls").Array()
		}
		w.call(parts[i].Call, calls)
		calls++
	}
	if calls > 0 {
		w.EndArray()
	}
	w.EndObject()
}

func (w *requestWriter) call(call *perigee.FunctionCall, index int64) {
	args := call.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	w.Object()
	if call.ID != "" {
		w.Key("id").String(call.ID)
	}
	w.Key("function").Object().Key("index").Int(index).Key("name").String(call.Name)
	w.Key("arguments").Raw(args).EndObject().EndObject()
}

// result writes a tool result.
func (w *requestWriter) result(r *perigee.FunctionResponse) {
	w.Members(`{"role":"tool"`).Key("content").Raw(dialect.ResultText(r)).Key("tool_name").String(r.Name)
	if r.ID != "" {
		w.Key("tool_call_id").String(r.ID)
	}
	w.EndObject()
}

// tools writes the functions that the model may call.
func (w *requestWriter) tools(tools []perigee.Tool) {
	if len(tools) == 0 {
		return
	}
	w.Key("tools").Array()
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		w.Members(`{"type":"function"`).Key("function").Object().Key("name").String(f.Name)
		if f.Description != "" {
			w.Key("description").String(f.Description)
		}
		w.Key("parameters").Raw(f.Parameters).EndObject().EndObject()
	}
	w.EndArray()
}

// answer writes the members that are not options of the model: the form of the answer, its log
// probabilities, and how much the model thinks.
func (w *requestWriter) answer(g *perigee.Generation) {
	switch {
	case g.ResponseJSON != nil:
		w.Key("format").Raw(g.ResponseJSON)
	case g.ResponseMIME == "application/json":
		w.Members(`"format":"json"`)
	}
	if g.Logprobs != nil {
		w.Members(`"logprobs":true`)
		if *g.Logprobs > 0 {
			w.int("top_logprobs", g.Logprobs)
		}
	}
	switch t := g.Thinking; {
	case t == nil:
	case t.Level == "none":
		w.Members(`"think":false`)
	case t.Level == "":
		w.Members(`"think":true`)
	default:
		w.Key("think").String(t.Level)
	}
}

// options writes the options of the model.
func (w *requestWriter) options(g *perigee.Generation, context int64) {
	w.Key("options").Object().Key("num_ctx").Int(context)
	w.int("num_predict", g.MaxOutputTokens)
	w.float("temperature", g.Temperature)
	w.float("top_p", g.TopP)
	if g.TopK != nil {
		w.Key("top_k").Int(int64(*g.TopK)) // the server takes whole numbers
	}
	w.int("seed", g.Seed)
	w.float("presence_penalty", g.PresencePenalty)
	w.float("frequency_penalty", g.FrequencyPenalty)
	if len(g.Stop) > 0 {
		w.Key("stop").Array()
		for _, stop := range g.Stop {
			w.String(stop)
		}
		w.EndArray()
	}
	w.EndObject()
}

func (w *requestWriter) int(name string, value *int64) {
	if value != nil {
		w.Key(name).Int(*value)
	}
}

func (w *requestWriter) float(name string, value *float64) {
	if value != nil {
		w.Key(name).Float(*value, 64)
	}
}
