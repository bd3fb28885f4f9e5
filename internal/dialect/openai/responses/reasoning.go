package responses

// addThinking adds to the thinking. A seal ends a stretch: what comes after it is another.
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
	s.thought.str(text)
	if s.req.showSummary && text != "" {
		delta := s.escape(text)
		if s.event("response.reasoning_summary_text.delta") {
			s.where()
			s.summaryIndex()
			s.w.lit(`,"delta":"`)
			s.w.raw(delta)
			s.w.lit(`"`)
			s.send()
		}
	}
	s.carrier.thoughts[len(s.carrier.thoughts)-1].signature = signature
}

// seal gives a seal that came by itself to the thinking before it. The seals of texts are not for this API: it has
// no place for them, and nobody asks for them back.
func (s *Stream) seal(signature string) {
	if n := len(s.carrier.thoughts); s.open == reasoningItem && n > 0 {
		s.carrier.thoughts[n-1].signature = signature
	}
}

func (s *Stream) openReasoning() {
	s.open, s.id = reasoningItem, s.newID("rs")
	s.text, s.parts, s.thought, s.count = rope{}, rope{}, rope{}, 0
	s.carrier = carrier{}
	s.added(func(w *writer) {
		w.lit(`{"id":`)
		w.str(s.id)
		w.lit(`,"type":"reasoning","summary":[]}`)
	})
}

func (s *Stream) summaryIndex() {
	s.w.lit(`,"summary_index":`)
	s.w.int(s.count)
}

func (s *Stream) openSummary() {
	if s.req.showSummary && s.event("response.reasoning_summary_part.added") {
		s.where()
		s.summaryIndex()
		s.w.lit(`,"part":{"type":"summary_text","text":""}`)
		s.send()
	}
}

// closeThought ends the stretch of thinking that goes on, and with it a part of the summary.
func (s *Stream) closeThought() {
	n := len(s.carrier.thoughts)
	if n == 0 {
		return
	}
	s.carrier.thoughts[n-1].pieces, s.thought = s.thought, rope{}
	if !s.req.showSummary {
		return
	}
	if s.event("response.reasoning_summary_text.done") {
		s.where()
		s.summaryIndex()
		s.w.lit(`,"text":"`)
		s.w.rope(&s.text)
		s.w.lit(`"`)
		s.send()
	}
	var part rope
	part.lit(`{"type":"summary_text","text":"`)
	part.add(&s.text)
	part.lit(`"}`)
	s.parts.item(&part)
	if s.event("response.reasoning_summary_part.done") {
		s.where()
		s.summaryIndex()
		s.w.lit(`,"part":`)
		s.w.rope(&part)
		s.send()
	}
	s.count++
	s.text = rope{}
}

func (s *Stream) closeReasoning() {
	s.closeThought()
	if s.keepsApart() {
		s.kept.add(s.reasoningItem(true), s.spoken)
	}
	s.doneItem(s.reasoningItem(s.req.showSeals))
	s.carrier, s.parts = carrier{}, rope{}
}

// reasoningItem is the open item, with what the next turn needs if sealed is set.
func (s *Stream) reasoningItem(sealed bool) *rope {
	head := writer{buf: []byte(`{"id":`)}
	head.str(s.id)
	head.lit(`,"type":"reasoning","summary":[`)
	var item rope
	item.raw(head.buf)
	item.add(&s.parts)
	item.lit(`]`)
	if s.answer.status == statusFailed || s.answer.status == statusCancelled {
		item.lit(`,"status":"incomplete"`)
	}
	if sealed {
		item.lit(`,"encrypted_content":"`)
		s.carrier.write(&item)
		item.lit(`"`)
	}
	item.lit(`}`)
	return &item
}

// carrySeal makes room for the seal of a call in a reasoning item before it: the one that is open, or one of its own,
// which a client that did not ask for seals does not see.
func (s *Stream) carrySeal(callID, signature string) {
	if signature == "" {
		s.closeItem()
		return
	}
	if s.open != reasoningItem {
		s.closeItem()
		if !s.req.showSeals {
			s.keepSeal(callID, signature)
			return
		}
		s.openReasoning()
	}
	s.carrier.calls = append(s.carrier.calls, seal{callID, signature})
	s.closeItem()
}

// keepSeal keeps the seal of a call for the next turn only.
func (s *Stream) keepSeal(callID, signature string) {
	if !s.keepsApart() {
		return
	}
	carrier := carrier{calls: []seal{{callID, signature}}}
	var w writer
	w.lit(`{"id":`)
	w.str(s.newID("rs") + "k")
	w.lit(`,"type":"reasoning","summary":[],"encrypted_content":`)
	w.str(carrier.encode())
	w.lit(`}`)
	var item rope
	item.raw(w.buf)
	s.kept.add(&item, s.spoken)
}
