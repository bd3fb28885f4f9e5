package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// newID names the next item.
func (s *Stream) newID(prefix string) string {
	return prefix + "_" + s.call + "_" + strconv.Itoa(s.items)
}

// about sends an event about the item that is open.
func (s *Stream) about(name string, write func(w *rawjson.Writer)) {
	s.emit(name, func(w *rawjson.Writer) { write(w.Key("item_id").String(s.id).Key("output_index").Int(int64(s.items))) })
}

// steps sends events about the progress of an item.
func (s *Stream) steps(name string, steps ...string) {
	for _, step := range steps {
		s.about(name+step, func(*rawjson.Writer) {})
	}
}

// edge sends the event with which an item begins or ends.
func (s *Stream) edge(name string, item func(w *rawjson.Writer)) {
	s.emit(name, func(w *rawjson.Writer) { item(w.Key("output_index").Int(int64(s.items)).Key("item")) })
}

// added announces the item that begins now.
func (s *Stream) added(write func(w *rawjson.Writer)) { s.edge("response.output_item.added", write) }

// head begins an item; status: it has one.
func (s *Stream) head(w *rawjson.Writer, kind string, status status) *rawjson.Writer {
	w.Object().Key("id").String(s.id).Key("type").String(kind)
	if status != "" {
		w.Key("status").String(string(status))
	}
	return w
}

// done ends an item: the client gets it whole, and it is part of the answer from now on.
func (s *Stream) done(write func(w *rawjson.Writer)) {
	var w rawjson.Writer
	write(&w)
	var item rope
	item.raw(w.Buf)
	s.doneItem(&item)
}

func (s *Stream) doneItem(item *rope) {
	s.output.add(item, s.answering)
	s.edge("response.output_item.done", func(w *rawjson.Writer) { w.Raw(item.pieces...) })
	if s.keepsApart() && s.open != reasoningItem {
		s.kept.add(item, s.answering)
	}
	s.items++
	s.open = noItem
}

// escape adds text to the open part and returns its JSON form, without quotes.
func (s *Stream) escape(text string) []byte {
	piece := s.text.room(len(text) + 2)
	from := len(piece)
	piece = rawjson.AppendInner(piece, text)
	s.text.fill(piece)
	return piece[from:]
}

// markAnswer records that the answer itself begins, which follows the searches that it is based on.
// No item is open.
func (s *Stream) markAnswer() { s.answering = true }

// closeItem ends the open item, if there is one.
func (s *Stream) closeItem() {
	switch s.open {
	case messageItem:
		s.closeMessage()
	case reasoningItem:
		s.closeReasoning()
	}
}

func (s *Stream) addText(text string) {
	if text == "" {
		return
	}
	if s.open != messageItem {
		s.closeItem()
		s.openMessage()
	}
	s.worded = true
	delta := s.escape(text)
	if s.req.searches {
		s.plain.WriteString(text)
	}
	s.about("response.output_text.delta", func(w *rawjson.Writer) {
		w.Members(`"content_index":0`).Key("delta").Quoted(delta).Members(`"logprobs":[]`)
	})
}

func (s *Stream) openMessage() {
	s.markAnswer()
	s.open, s.id = messageItem, s.newID("msg")
	s.text = rope{}
	s.plain.Reset()
	s.added(s.emptyMessage)
	s.about("response.content_part.added", func(w *rawjson.Writer) {
		w.Members(`"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
	})
}

// emptyMessage writes a message without content.
func (s *Stream) emptyMessage(w *rawjson.Writer) {
	s.head(w, "message", statusInProgress).Members(`"content":[],"role":"assistant"`).EndObject()
}

func (s *Stream) closeMessage() {
	annotations := s.annotate()
	s.about("response.output_text.done", func(w *rawjson.Writer) {
		w.Members(`"content_index":0`).Key("text").Quoted(s.text.pieces...).Key("logprobs").Array().Elements(s.logprobs.Buf).EndArray()
	})
	var part rope
	part.lit(`{"type":"output_text","annotations":[`)
	part.raw(annotations)
	part.lit(`],"logprobs":[`)
	part.raw(s.logprobs.Buf)
	part.lit(`],"text":"`)
	part.add(&s.text)
	part.lit(`"}`)
	s.about("response.content_part.done", func(w *rawjson.Writer) {
		w.Members(`"content_index":0`).Key("part").Raw(part.pieces...)
	})
	var head rawjson.Writer
	var item rope
	item.raw(s.head(&head, "message", s.itemStatus()).Key("content").Array().Buf)
	item.add(&part)
	item.lit(`],"role":"assistant"}`)
	s.doneItem(&item)
	s.text, s.logprobs = rope{}, rawjson.Writer{}
}

// itemStatus returns the status of the item that is being closed: incomplete if the end of the
// answer has cut it off.
func (s *Stream) itemStatus() status {
	switch s.answer.status {
	case statusIncomplete, statusFailed, statusCancelled:
		return statusIncomplete
	}
	return statusCompleted
}

// addRefusal emits the reason why there is no answer as a refusal.
func (s *Stream) addRefusal(why string) {
	s.markAnswer()
	s.id = s.newID("msg")
	part := func(w *rawjson.Writer, text string) {
		w.Object().Members(`"type":"refusal"`).Key("refusal").String(text).EndObject()
	}
	s.added(s.emptyMessage)
	for _, step := range []struct {
		event, member string
		value         func(w *rawjson.Writer)
	}{
		{"response.content_part.added", "part", func(w *rawjson.Writer) { part(w, "") }},
		{"response.refusal.delta", "delta", func(w *rawjson.Writer) { w.String(why) }},
		{"response.refusal.done", "refusal", func(w *rawjson.Writer) { w.String(why) }},
		{"response.content_part.done", "part", func(w *rawjson.Writer) { part(w, why) }},
	} {
		s.about(step.event, func(w *rawjson.Writer) { step.value(w.Members(`"content_index":0`).Key(step.member)) })
	}
	s.done(func(w *rawjson.Writer) {
		part(s.head(w, "message", s.itemStatus()).Key("content").Array(), why)
		w.EndArray().Members(`"role":"assistant"`).EndObject()
	})
}

func (s *Stream) addLogprobs(l *perigee.Logprobs) {
	if l == nil {
		return
	}
	s.probed = true
	openai.WriteLogprobs(&s.logprobs, l)
}

// A toolCall is a call under the client's names.
type toolCall struct {
	tool
	callID string
	text   string // arguments, or input
}

func (s *Stream) addCall(call *perigee.FunctionCall, signature string) {
	if call == nil {
		return
	}
	s.calls++
	s.carrySignature(call.ID, signature)
	s.markAnswer()
	c := toolCall{tool: s.req.tools.called(call.Name), callID: call.ID, text: string(call.Args)}
	if c.text == "" {
		c.text = "{}"
	}
	switch c.kind {
	case customTool:
		s.id = s.newID("ctc")
		c.text = openai.Unwrap("input", call.Args)
		s.writeCall(&c, "custom_tool_call", "input", "response.custom_tool_call_input")
	case searchTool:
		s.id = s.newID("tsc")
		s.writeToolSearch(&c)
	default:
		s.id = s.newID("fc")
		s.writeCall(&c, "function_call", "arguments", "response.function_call_arguments")
	}
}

func (s *Stream) writeCall(c *toolCall, kind, member, event string) {
	item := func(status status, text string) func(w *rawjson.Writer) {
		return func(w *rawjson.Writer) {
			s.head(w, kind, status).Key(member).String(text).Key("call_id").String(c.callID).Key("name").String(c.name)
			if c.namespace != "" && c.namespace != defaultNamespace {
				w.Key("namespace").String(c.namespace)
			}
			w.EndObject()
		}
	}
	s.added(item(statusInProgress, ""))
	s.about(event+".delta", func(w *rawjson.Writer) { w.Key("delta").String(c.text) })
	s.about(event+".done", func(w *rawjson.Writer) {
		if kind == "function_call" {
			w.Key("name").String(c.name)
		}
		w.Key(member).String(c.text)
	})
	s.done(item(statusCompleted, c.text))
}

func (s *Stream) writeToolSearch(c *toolCall) {
	item := func(status status, arguments json.RawMessage) func(w *rawjson.Writer) {
		return func(w *rawjson.Writer) {
			s.head(w, "tool_search_call", status).Members(`"execution":"client"`).Key("call_id").String(c.callID)
			w.Key("arguments").Raw(arguments).EndObject()
		}
	}
	s.added(item(statusInProgress, openai.EmptyArgs))
	s.done(item(statusCompleted, oneLine(json.RawMessage(c.text))))
}

// addBlob gives an image of the model's as the result of the tool that makes images elsewhere. What
// belongs to the thinking is a draft.
func (s *Stream) addBlob(ev *perigee.Event) {
	if ev.Blob == nil || ev.Thought {
		return
	}
	s.closeItem()
	s.markAnswer()
	s.id = s.newID("ig")
	_, format, _ := strings.Cut(ev.Blob.MIME, "/")
	item := func(status status, data string) func(w *rawjson.Writer) {
		return func(w *rawjson.Writer) {
			s.head(w, "image_generation_call", status).Key("output_format").String(format).Key("result").StringOrNull(data).EndObject()
		}
	}
	s.added(item(statusInProgress, ""))
	s.steps("response.image_generation_call.", "in_progress", "generating", "completed")
	s.done(item(statusCompleted, ev.Blob.Data))
}
