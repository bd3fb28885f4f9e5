package responses

import (
	"bytes"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// annotate sends the sources of the open message as annotations, and returns them as elements of a
// list.
func (s *Stream) annotate() []byte {
	if !s.req.searches {
		return nil
	}
	var list rawjson.Writer
	for i, c := range openai.Citations(s.plain.String(), s.trail.All()) {
		from := len(list.Buf)
		list.Object().Members(`"type":"url_citation"`).Key("start_index").Int(int64(c.Start)).Key("end_index").Int(int64(c.End))
		list.Key("url").String(c.URL).Key("title").String(c.Title).EndObject()
		s.about("response.output_text.annotation.added", func(w *rawjson.Writer) {
			w.Members(`"content_index":0`).Key("annotation_index").Int(int64(i))
			w.Key("annotation").Raw(bytes.TrimPrefix(list.Buf[from:], []byte(",")))
		})
	}
	return list.Buf
}

// searchesFirst puts the searches of a whole answer before the message that is based on them, as in
// this API, however late the provider reported them.
func (s *Stream) searchesFirst() {
	answering := s.answering
	if s.answering = false; !answering { // then they come first of all
		for _, list := range []*itemList{&s.output, &s.nextTurn} {
			list.before, list.answer = rope{}, list.before
		}
	}
	s.addSearches()
	s.answering = answering
}

// addSearches emits the provider's searches that the client has not received, each as an item of
// its own.
func (s *Stream) addSearches() {
	for _, found := range s.trail.New() {
		if len(found.Queries) > 0 {
			s.closeItem()
			var w rawjson.Writer
			s.action(s.newItem(&w, "ws", "web_search_call"), &found)
			s.addWhole(w.EndObject().Buf)
		}
	}
}

// action writes the queries and, if the client asked for them, the results.
func (s *Stream) action(w *rawjson.Writer, found *perigee.Grounding) {
	w.Key("action").Object().Members(`"type":"search"`).Key("query").String(found.Queries[0]).Key("queries").Array()
	for _, q := range found.Queries {
		w.String(q)
	}
	w.EndArray()
	if s.req.showSources {
		w.Key("sources").Array()
		for _, source := range found.Sources {
			if source.URL != "" {
				w.Object().Members(`"type":"url"`).Key("url").String(source.URL).EndObject()
			}
		}
		w.EndArray()
	}
	w.EndObject()
}
