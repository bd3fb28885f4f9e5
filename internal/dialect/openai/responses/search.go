package responses

import (
	"perigee"
	"perigee/internal/dialect/openai"
)

// annotate gives the sources of the open message as annotations of its text.
func (s *Stream) annotate() []byte {
	if !s.req.searches {
		return nil
	}
	var list writer
	for i, c := range openai.Citations(s.plain.String(), s.trail.All()) {
		if i > 0 {
			list.lit(",")
		}
		from := len(list.buf)
		list.lit(`{"type":"url_citation","start_index":`)
		list.int(int64(c.Start))
		list.lit(`,"end_index":`)
		list.int(int64(c.End))
		list.lit(`,"url":`)
		list.str(c.URL)
		list.lit(`,"title":`)
		list.str(c.Title)
		list.lit(`}`)
		if s.event("response.output_text.annotation.added") {
			s.where()
			s.w.lit(`,"content_index":0,"annotation_index":`)
			s.w.int(int64(i))
			s.w.lit(`,"annotation":`)
			s.w.raw(list.buf[from:])
			s.send()
		}
	}
	return list.buf
}

// searchesFirst puts the searches of a whole answer where this API has them, before the message that rests on them, however late
// the provider told of them.
func (s *Stream) searchesFirst() {
	spoken := s.spoken
	if s.spoken = false; !spoken { // then they come first of all
		for _, list := range []*itemList{&s.output, &s.kept} {
			list.before, list.said = rope{}, list.before
		}
	}
	s.addSearches()
	s.spoken = spoken
}

// addSearches gives the searches of the provider's that the client was not told of, each as an item of its own.
func (s *Stream) addSearches() {
	for _, found := range s.trail.Tell() {
		if len(found.Queries) > 0 {
			s.closeItem()
			s.addSearch(&found)
		}
	}
}

func (s *Stream) addSearch(found *perigee.Grounding) {
	s.id = s.newID("ws")
	item := func(status status) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"web_search_call","status":"` + string(status) + `"`)
			if status == statusCompleted {
				s.action(w, found)
			}
			w.lit(`}`)
		}
	}
	s.added(item(statusInProgress))
	s.step("response.web_search_call.in_progress")
	s.step("response.web_search_call.searching")
	s.step("response.web_search_call.completed")
	s.done(item(statusCompleted))
}

// action appends what was searched for and, for who wants to know it, what was found.
func (s *Stream) action(w *writer, found *perigee.Grounding) {
	w.lit(`,"action":{"type":"search","query":`)
	w.str(found.Queries[0])
	w.lit(`,"queries":[`)
	for _, q := range found.Queries {
		w.comma()
		w.str(q)
	}
	w.lit(`]`)
	if s.req.showSources {
		w.lit(`,"sources":[`)
		for _, source := range found.Sources {
			if source.URL != "" {
				w.comma()
				w.lit(`{"type":"url","url":`)
				w.str(source.URL)
				w.lit(`}`)
			}
		}
		w.lit(`]`)
	}
	w.lit(`}`)
}
