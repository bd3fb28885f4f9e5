package responses

import "perigee/internal/dialect/openai"

// annotate gives the sources of the open message as annotations of its text.
func (s *Stream) annotate() []byte {
	if s.grounding == nil || !s.req.searches {
		return nil
	}
	var list writer
	for i, c := range openai.Citations(string(s.plain), s.grounding) {
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

// addSearch gives a search of the provider's as an item of its own. It comes last, because the provider tells of it
// last.
func (s *Stream) addSearch() {
	if s.grounding == nil || len(s.grounding.Queries) == 0 {
		return
	}
	queries := s.grounding.Queries
	s.id = s.newID("ws")
	item := func(status status) func(w *writer) {
		return func(w *writer) {
			w.lit(`{"id":`)
			w.str(s.id)
			w.lit(`,"type":"web_search_call","status":"` + string(status) + `","action":{"type":"search","query":`)
			w.str(queries[0])
			w.lit(`,"queries":[`)
			for _, q := range queries {
				w.comma()
				w.str(q)
			}
			w.lit(`]`)
			if s.req.showSources {
				w.lit(`,"sources":[`)
				for _, source := range s.grounding.Sources {
					if source.URL != "" {
						w.comma()
						w.lit(`{"type":"url","url":`)
						w.str(source.URL)
						w.lit(`}`)
					}
				}
				w.lit(`]`)
			}
			w.lit(`}}`)
		}
	}
	s.added(item(statusInProgress))
	s.step("response.web_search_call.in_progress")
	s.step("response.web_search_call.searching")
	s.step("response.web_search_call.completed")
	s.done(item(statusCompleted))
}
