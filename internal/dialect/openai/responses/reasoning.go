package responses

import "perigee/internal/lib/rawjson"

// addThinking adds to the thinking. A signature ends a section: further thinking begins another
// one.
func (s *Stream) addThinking(text, signature string) {
	if s.open != reasoningItem {
		s.closeItem()
		s.openReasoning()
	}
	if n := len(s.carrier.thoughts); n == 0 || s.carrier.thoughts[n-1].signature != "" {
		s.closeThought()
		s.carrier.thoughts = append(s.carrier.thoughts, thought{})
		s.openSummary()
	}
	s.thought.text(text)
	if s.req.showSummary && text != "" {
		delta := s.escape(text)
		s.summary("response.reasoning_summary_text.delta", func(w *rawjson.Writer) { w.Key("delta").Quoted(delta) })
	}
	s.carrier.thoughts[len(s.carrier.thoughts)-1].signature = signature
}

// sign adds a thought signature without a text to the previous thinking. Signatures of texts are
// dropped: this API has no field for them.
func (s *Stream) sign(signature string) {
	if n := len(s.carrier.thoughts); s.open == reasoningItem && n > 0 {
		s.carrier.thoughts[n-1].signature = signature
	}
}

func (s *Stream) openReasoning() {
	s.open, s.id = reasoningItem, s.newID("rs")
	s.text, s.parts, s.thought, s.count = rope{}, rope{}, rope{}, 0
	s.carrier = carrier{}
	s.added(func(w *rawjson.Writer) { s.head(w, "reasoning", "").Members(`"summary":[]`).EndObject() })
}

// summary sends an event about the open part of the summary.
func (s *Stream) summary(name string, write func(w *rawjson.Writer)) {
	s.about(name, func(w *rawjson.Writer) { write(w.Key("summary_index").Int(s.count)) })
}

func (s *Stream) openSummary() {
	if s.req.showSummary {
		s.summary("response.reasoning_summary_part.added", func(w *rawjson.Writer) {
			w.Members(`"part":{"type":"summary_text","text":""}`)
		})
	}
}

// closeThought ends the open section of thinking, and with it a part of the summary.
func (s *Stream) closeThought() {
	n := len(s.carrier.thoughts)
	if n == 0 {
		return
	}
	s.carrier.thoughts[n-1].pieces, s.thought = s.thought, rope{}
	if !s.req.showSummary {
		return
	}
	s.summary("response.reasoning_summary_text.done", func(w *rawjson.Writer) { w.Key("text").Quoted(s.text.pieces...) })
	var part rope
	part.text(`{"type":"summary_text","text":"`)
	part.add(&s.text)
	part.text(`"}`)
	s.parts.item(&part)
	s.summary("response.reasoning_summary_part.done", func(w *rawjson.Writer) { w.Key("part").Raw(part.pieces...) })
	s.count++
	s.text = rope{}
}

func (s *Stream) closeReasoning() {
	s.closeThought()
	if s.keepsApart() {
		s.nextTurn.add(s.reasoningItem(true), s.answering)
	}
	s.doneItem(s.reasoningItem(s.req.showSignatures))
	s.carrier, s.parts = carrier{}, rope{}
}

// reasoningItem returns the open item, with the carrier for the next turn if signed is set.
func (s *Stream) reasoningItem(signed bool) *rope {
	var head rawjson.Writer
	var item rope
	item.raw(s.head(&head, "reasoning", "").Key("summary").Array().Buf)
	item.add(&s.parts)
	item.text(`]`)
	if s.answer.status == statusFailed || s.answer.status == statusCancelled {
		item.text(`,"status":"incomplete"`)
	}
	if signed {
		item.text(`,"encrypted_content":"`)
		s.carrier.write(&item)
		item.text(`"`)
	}
	item.text(`}`)
	return &item
}

// carrySignature makes room for the signature of a call in a reasoning item before it: the one that
// is open, or a new one, which only clients that asked for signatures get.
func (s *Stream) carrySignature(callID, signature string) {
	if signature == "" {
		s.closeItem()
		return
	}
	if s.open != reasoningItem {
		s.closeItem()
		if !s.req.showSignatures {
			s.keepSignature(callID, signature)
			return
		}
		s.openReasoning()
	}
	s.carrier.calls = append(s.carrier.calls, callSignature{callID, signature})
	s.closeItem()
}

// keepSignature keeps the signature of a call for the next turn only.
func (s *Stream) keepSignature(callID, signature string) {
	if !s.keepsApart() {
		return
	}
	carrier := carrier{calls: []callSignature{{callID, signature}}}
	var w rawjson.Writer
	w.Object().Key("id").String(s.newID("rs") + "k").Members(`"type":"reasoning","summary":[],"encrypted_content":"`)
	var item rope
	item.raw(w.Buf)
	carrier.write(&item)
	item.text(`"}`)
	s.nextTurn.add(&item, s.answering)
}
