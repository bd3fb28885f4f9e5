package responses

import (
	"encoding/json"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// newID names the next item.
func (s *Stream) newID(prefix string) string {
	return prefix + "_" + s.call + "_" + strconv.Itoa(s.items)
}

// where appends the members that say which item an event is about.
func (s *Stream) where() {
	s.w.lit(`,"item_id":`)
	s.w.str(s.id)
	s.w.lit(`,"output_index":`)
	s.w.int(int64(s.items))
}

// added announces the item that begins now.
func (s *Stream) added(write func(w *writer)) {
	if s.event("response.output_item.added") {
		s.w.lit(`,"output_index":`)
		s.w.int(int64(s.items))
		s.w.lit(`,"item":`)
		write(&s.w)
		s.send()
	}
}

// step sends an event that says nothing but how far an item is.
func (s *Stream) step(name string) {
	if s.event(name) {
		s.where()
		s.send()
	}
}

// done ends an item: the client gets it whole, and it is part of the answer from now on.
func (s *Stream) done(write func(w *writer)) {
	var w writer
	write(&w)
	var item rope
	item.raw(w.buf)
	s.doneItem(&item)
}

func (s *Stream) doneItem(item *rope) {
	s.output.add(item, s.spoken)
	if s.event("response.output_item.done") {
		s.w.lit(`,"output_index":`)
		s.w.int(int64(s.items))
		s.w.lit(`,"item":`)
		s.w.rope(item)
		s.send()
	}
	if s.keepsApart() && s.open != reasoningItem {
		s.kept.add(item, s.spoken)
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

// speak notes where the answer itself begins, which the client is told of after the searches that it rests on. No item is open.
func (s *Stream) speak() { s.spoken = true }

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
	if s.event("response.output_text.delta") {
		s.where()
		s.w.lit(`,"content_index":0,"delta":"`)
		s.w.raw(delta)
		s.w.lit(`","logprobs":[]`)
		s.send()
	}
}

func (s *Stream) openMessage() {
	s.speak()
	s.open, s.id = messageItem, s.newID("msg")
	s.text = rope{}
	s.plain.Reset()
	s.added(func(w *writer) {
		w.lit(`{"id":`)
		w.str(s.id)
		w.lit(`,"type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	})
	if s.event("response.content_part.added") {
		s.where()
		s.w.lit(`,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
		s.send()
	}
}

func (s *Stream) closeMessage() {
	annotations := s.annotate()
	if s.event("response.output_text.done") {
		s.where()
		s.w.lit(`,"content_index":0,"text":"`)
		s.w.rope(&s.text)
		s.w.lit(`","logprobs":[`)
		s.w.raw(s.logprobs)
		s.w.lit(`]`)
		s.send()
	}
	var part rope
	part.lit(`{"type":"output_text","annotations":[`)
	part.raw(annotations)
	part.lit(`],"logprobs":[`)
	part.raw(s.logprobs)
	part.lit(`],"text":"`)
	part.add(&s.text)
	part.lit(`"}`)
	if s.event("response.content_part.done") {
		s.where()
		s.w.lit(`,"content_index":0,"part":`)
		s.w.rope(&part)
		s.send()
	}
	head := writer{buf: []byte(`{"id":`)}
	head.str(s.id)
	head.lit(`,"type":"message","status":"` + string(s.itemStatus()) + `","content":[`)
	var item rope
	item.raw(head.buf)
	item.add(&part)
	item.lit(`],"role":"assistant"}`)
	s.doneItem(&item)
	s.text, s.logprobs = rope{}, nil
}

// itemStatus is how the item stands that is closed now: one that the end of the answer has cut is not whole.
func (s *Stream) itemStatus() status {
	switch s.answer.status {
	case statusIncomplete, statusFailed, statusCancelled:
		return statusIncomplete
	}
	return statusCompleted
}

// addRefusal gives the reason why there is no answer, as the refusal that it is.
func (s *Stream) addRefusal(why string) {
	s.speak()
	s.id = s.newID("msg")
	part := func(w *writer, text string) {
		w.lit(`{"type":"refusal","refusal":`)
		w.str(text)
		w.lit(`}`)
	}
	s.added(func(w *writer) {
		w.lit(`{"id":`)
		w.str(s.id)
		w.lit(`,"type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	})
	for _, step := range []struct {
		event, member string
		value         func(w *writer)
	}{
		{"response.content_part.added", "part", func(w *writer) { part(w, "") }},
		{"response.refusal.delta", "delta", func(w *writer) { w.str(why) }},
		{"response.refusal.done", "refusal", func(w *writer) { w.str(why) }},
		{"response.content_part.done", "part", func(w *writer) { part(w, why) }},
	} {
		if s.event(step.event) {
			s.where()
			s.w.lit(`,"content_index":0,"` + step.member + `":`)
			step.value(&s.w)
			s.send()
		}
	}
	s.done(func(w *writer) {
		w.lit(`{"id":`)
		w.str(s.id)
		w.lit(`,"type":"message","status":"` + string(s.itemStatus()) + `","content":[`)
		part(w, why)
		w.lit(`],"role":"assistant"}`)
	})
}

func (s *Stream) addLogprobs(l *perigee.Logprobs) {
	if l == nil {
		return
	}
	s.probed = true
	before := len(s.logprobs)
	if before > 0 {
		s.logprobs = append(s.logprobs, ',')
	}
	from := len(s.logprobs)
	if s.logprobs = openai.AppendLogprobs(s.logprobs, l); len(s.logprobs) == from {
		s.logprobs = s.logprobs[:before]
	}
}

// A toolCall is a call in the client's words.
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
	s.carrySeal(call.ID, signature)
	s.speak()
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
	item := func(status status, text string) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"` + kind + `","status":"` + string(status) + `","` + member + `":`)
			w.str(text)
			w.lit(`,"call_id":`)
			w.str(c.callID)
			w.lit(`,"name":`)
			w.str(c.name)
			if c.namespace != "" && c.namespace != defaultNamespace {
				w.lit(`,"namespace":`)
				w.str(c.namespace)
			}
			w.lit(`}`)
		}
	}
	s.added(item(statusInProgress, ""))
	if s.event(event + ".delta") {
		s.where()
		s.w.lit(`,"delta":`)
		s.w.str(c.text)
		s.send()
	}
	if s.event(event + ".done") {
		s.where()
		if kind == "function_call" {
			s.w.lit(`,"name":`)
			s.w.str(c.name)
		}
		s.w.lit(`,"` + member + `":`)
		s.w.str(c.text)
		s.send()
	}
	s.done(item(statusCompleted, c.text))
}

func (s *Stream) writeToolSearch(c *toolCall) {
	item := func(status status, arguments string) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"tool_search_call","status":"` + string(status) + `","execution":"client","call_id":`)
			w.str(c.callID)
			w.lit(`,"arguments":` + arguments + `}`)
		}
	}
	s.added(item(statusInProgress, "{}"))
	s.done(item(statusCompleted, string(oneLine(json.RawMessage(c.text)))))
}

// addBlob gives an image of the model's as the result of the tool that makes images elsewhere. What belongs to the
// thinking is a draft.
func (s *Stream) addBlob(ev *perigee.Event) {
	if ev.Blob == nil || ev.Thought {
		return
	}
	s.closeItem()
	s.speak()
	s.id = s.newID("ig")
	_, format, _ := strings.Cut(ev.Blob.MIME, "/")
	item := func(status status, data string) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"image_generation_call","status":"` + string(status) + `","output_format":`)
			w.str(format)
			w.lit(`,"result":`)
			if data == "" {
				w.lit(`null`)
			} else {
				w.str(data)
			}
			w.lit(`}`)
		}
	}
	s.added(item(statusInProgress, ""))
	s.step("response.image_generation_call.in_progress")
	s.step("response.image_generation_call.generating")
	s.step("response.image_generation_call.completed")
	s.done(item(statusCompleted, ev.Blob.Data))
}
