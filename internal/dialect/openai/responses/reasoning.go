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
	s.thought = append(s.thought, text...)
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
	s.text, s.parts, s.thought, s.count = s.text[:0], s.parts[:0], s.thought[:0], 0
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
	s.carrier.thoughts[n-1].text = string(s.thought)
	s.thought = s.thought[:0]
	if !s.req.showSummary {
		return
	}
	if s.event("response.reasoning_summary_text.done") {
		s.where()
		s.summaryIndex()
		s.w.lit(`,"text":"`)
		s.w.raw(s.text)
		s.w.lit(`"`)
		s.send()
	}
	w := writer{buf: s.parts}
	if len(w.buf) > 0 {
		w.lit(",")
	}
	from := len(w.buf)
	w.lit(`{"type":"summary_text","text":"`)
	w.raw(s.text)
	w.lit(`"}`)
	s.parts = w.buf
	if s.event("response.reasoning_summary_part.done") {
		s.where()
		s.summaryIndex()
		s.w.lit(`,"part":`)
		s.w.raw(s.parts[from:])
		s.send()
	}
	s.count++
	s.text = s.text[:0]
}

func (s *Stream) closeReasoning() {
	s.closeThought()
	item := func(sealed bool) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"reasoning","summary":[`)
			w.raw(s.parts)
			w.lit(`]`)
			if s.answer.status == statusFailed || s.answer.status == statusCancelled {
				w.lit(`,"status":"incomplete"`)
			}
			if sealed {
				w.lit(`,"encrypted_content":`)
				w.str(s.carrier.encode())
			}
			w.lit(`}`)
		}
	}
	if s.keepsApart() {
		var w writer
		item(true)(&w)
		s.keep(w.buf)
	}
	s.done(item(s.req.showSeals))
	s.carrier = carrier{}
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
	s.keep(w.buf)
}
