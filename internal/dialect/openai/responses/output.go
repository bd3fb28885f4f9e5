package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// newID returns the id of the next item.
func (s *Stream) newID(prefix string) string {
	return prefix + "_" + s.call + "_" + strconv.Itoa(s.items)
}

// about sends an event about the open item.
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

// head begins an item. An empty status is left out.
func (s *Stream) head(w *rawjson.Writer, kind string, status status) *rawjson.Writer {
	w.Object().Key("id").String(s.id).Key("type").String(kind)
	if status != "" {
		w.Key("status").String(string(status))
	}
	return w
}

// newItem begins an item that comes in one piece and is complete, for addWhole.
func (s *Stream) newItem(w *rawjson.Writer, prefix, kind string) *rawjson.Writer {
	s.id = s.newID(prefix)
	return s.head(w, kind, statusCompleted)
}

// addWhole adds an item that comes in one piece to the answer, and sends all of its events.
func (s *Stream) addWhole(raw json.RawMessage) {
	if !s.quiet {
		s.progress(raw)
	}
	var item rope
	item.raw(raw)
	s.doneItem(&item)
}

// doneItem ends an item: the client gets it whole, and it is part of the answer from now on.
func (s *Stream) doneItem(item *rope) {
	s.output.add(item, s.answering)
	s.edge("response.output_item.done", func(w *rawjson.Writer) { w.Raw(item.pieces...) })
	if s.keepsApart() && s.open != reasoningItem {
		s.nextTurn.add(item, s.answering)
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
	case callItem: // it was cut off, and no client may act on it
		s.open = noItem
		s.items++
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
	s.hasText = true
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
	s.added(func(w *rawjson.Writer) {
		s.head(w, "message", statusInProgress).Members(`"content":[],"role":"assistant"`).EndObject()
	})
	s.about("response.content_part.added", func(w *rawjson.Writer) {
		w.Members(`"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
	})
}

func (s *Stream) closeMessage() {
	annotations := s.annotate()
	s.about("response.output_text.done", func(w *rawjson.Writer) {
		w.Members(`"content_index":0`).Key("text").Quoted(s.text.pieces...).Key("logprobs").Array().Elements(s.logprobs.Buf).EndArray()
	})
	var part rope
	part.text(`{"type":"output_text","annotations":[`)
	part.raw(annotations)
	part.text(`],"logprobs":[`)
	part.raw(s.logprobs.Buf)
	part.text(`],"text":"`)
	part.add(&s.text)
	part.text(`"}`)
	s.about("response.content_part.done", func(w *rawjson.Writer) {
		w.Members(`"content_index":0`).Key("part").Raw(part.pieces...)
	})
	var head rawjson.Writer
	var item rope
	item.raw(s.head(&head, "message", s.itemStatus()).Key("content").Array().Buf)
	item.add(&part)
	item.text(`],"role":"assistant"}`)
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

// addRefusal emits the reason why there is no answer, or no more of it, as a refusal.
func (s *Stream) addRefusal(why string) {
	s.markAnswer()
	s.id = s.newID("msg")
	var w rawjson.Writer
	s.head(&w, "message", s.itemStatus()).Key("content").Array().Object().Members(`"type":"refusal"`)
	w.Key("refusal").String(why).EndObject().EndArray()
	s.addWhole(w.Members(`"role":"assistant"`).EndObject().Buf)
}

func (s *Stream) addLogprobs(l *perigee.Logprobs) {
	if l == nil {
		return
	}
	s.hasLogprobs = true
	openai.WriteLogprobs(&s.logprobs, l)
}

// addCallPiece adds a piece of the arguments of a call. The calls of tool_search are written whole.
func (s *Stream) addCallPiece(call *perigee.FunctionCall, piece string) {
	if s.quiet || call == nil {
		return
	}
	tool := s.req.tools.called(call.Name)
	if tool.kind == searchTool {
		return
	}
	event := "response.function_call_arguments.delta"
	if s.open != callItem {
		s.closeItem()
		s.markAnswer()
		s.open, s.sent, s.input = callItem, 0, openai.InputPieces{}
		s.id = s.newID(callPrefix[tool.kind])
		s.added(func(w *rawjson.Writer) {
			if tool.kind == customTool {
				s.head(w, "custom_tool_call", statusInProgress).Members(`"input":""`)
			} else {
				s.head(w, "function_call", statusInProgress).Members(`"arguments":""`)
			}
			tool.write(w, call.ID)
		})
	}
	if tool.kind == customTool {
		piece, event = s.input.Add(piece), "response.custom_tool_call_input.delta"
	}
	if piece != "" {
		s.sent += len(piece)
		s.about(event, func(w *rawjson.Writer) { w.Key("delta").String(piece) })
	}
}

// callPrefix are the prefixes of the ids of calls.
var callPrefix = map[toolKind]string{functionTool: "fc", customTool: "ctc"}

// addCall adds a call: whole, or the end of one of which the pieces were sent.
func (s *Stream) addCall(call *perigee.FunctionCall, signature string) {
	if call == nil {
		return
	}
	s.calls++
	begun := s.open == callItem
	if !begun { // otherwise the signature is only remembered
		s.carrySignature(call.ID, signature)
	}
	s.markAnswer()
	args := call.Args
	if len(args) == 0 {
		args = openai.EmptyArgs
	}
	var w rawjson.Writer
	tool := s.req.tools.called(call.Name)
	var rest string // that was not sent in pieces
	switch tool.kind {
	case searchTool:
		s.newItem(&w, "tsc", "tool_search_call").Members(`"execution":"client"`).Key("call_id").String(call.ID)
		s.addWhole(w.Key("arguments").Raw(oneLine(args)).EndObject().Buf)
		return
	case customTool:
		input := openai.Unwrap("input", call.Args)
		s.newItem(&w, callPrefix[tool.kind], "custom_tool_call").Key("input").String(input)
		rest = input[min(s.sent, len(input)):]
	default:
		s.newItem(&w, callPrefix[tool.kind], "function_call").Key("arguments").String(string(args))
		if s.sent == 0 {
			rest = string(args)
		}
	}
	tool.write(&w, call.ID)
	if !begun {
		s.addWhole(w.Buf)
		return
	}
	item := readItem(rawjson.NewCursor(w.Buf))
	s.callProgress(&item, rawjson.AppendString(nil, rest))
	var whole rope
	whole.raw(w.Buf)
	s.doneItem(&whole)
}

// write writes the id of a call and the name of its tool, and ends the item.
func (t tool) write(w *rawjson.Writer, callID string) {
	w.Key("call_id").String(callID).Key("name").String(t.name)
	if t.namespace != "" && t.namespace != defaultNamespace {
		w.Key("namespace").String(t.namespace)
	}
	w.EndObject()
}

// addBlob adds an image of the model as a result of the tool image_generation. Images in the
// thinking are drafts and are left out.
func (s *Stream) addBlob(ev *perigee.Event) {
	if ev.Blob == nil || ev.Thought {
		return
	}
	s.closeItem()
	s.markAnswer()
	_, format, _ := strings.Cut(ev.Blob.MIME, "/")
	var w rawjson.Writer
	s.newItem(&w, "ig", "image_generation_call").Key("output_format").String(format)
	s.addWhole(w.Key("result").StringOrNull(ev.Blob.Data).EndObject().Buf)
}
