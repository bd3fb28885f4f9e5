package openai

import "perigee/internal/rawjson"

// annotate gives the sources of the open message as annotations of its text.
func (s *ResponsesStream) annotate() []byte {
	if s.grounding == nil || !s.req.searches {
		return nil
	}
	var list responsesWriter
	for i, c := range citations(string(s.plain), s.grounding) {
		if i > 0 {
			list.lit(",")
		}
		from := len(list.buf)
		list.lit(`{"type":"url_citation","start_index":`)
		list.int(int64(c.start))
		list.lit(`,"end_index":`)
		list.int(int64(c.end))
		list.lit(`,"url":`)
		list.str(c.url)
		list.lit(`,"title":`)
		list.str(c.title)
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
func (s *ResponsesStream) addSearch() {
	if s.grounding == nil {
		return
	}
	queries, sources := responsesSearches(s.grounding)
	if len(queries) == 0 {
		return
	}
	s.id = s.newID("ws")
	item := func(status responsesStatus) func(w *responsesWriter) {
		return func(w *responsesWriter) {
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
				for _, url := range sources {
					w.comma()
					w.lit(`{"type":"url","url":`)
					w.str(url)
					w.lit(`}`)
				}
				w.lit(`]`)
			}
			w.lit(`}}`)
		}
	}
	s.added(item(responsesInProgress))
	s.step("response.web_search_call.in_progress")
	s.step("response.web_search_call.searching")
	s.step("response.web_search_call.completed")
	s.done(item(responsesCompleted))
}

// responsesSearches reads what was searched for, and what was found, out of the provider's groundingMetadata.
func responsesSearches(grounding []byte) (queries, sources []string) {
	c := rawjson.NewCursor(grounding)
	for key := range c.Object() {
		switch string(key) {
		case "webSearchQueries":
			for range c.Array() {
				queries = append(queries, c.String())
			}
		case "groundingChunks":
			for range c.Array() {
				if s := readSource(c); s.url != "" {
					sources = append(sources, s.url)
				}
			}
		}
	}
	return queries, sources
}
