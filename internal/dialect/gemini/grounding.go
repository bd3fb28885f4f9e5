package gemini

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// each returns a function for read that appends the elements of an array to list.
func each[T any](c *rawjson.Cursor, list *[]T, decode func(c *rawjson.Cursor) T) func() {
	return func() {
		for range c.Array() {
			*list = append(*list, decode(c))
		}
	}
}

// decodeGrounding reads groundingMetadata. Invalid members are left out without an error, because
// the answer itself is valid.
func decodeGrounding(raw []byte) *perigee.Grounding {
	g := &perigee.Grounding{}
	c := rawjson.NewCursor(raw)
	read(c, nil, "webSearchQueries", each(c, &g.Queries, (*rawjson.Cursor).String),
		"groundingChunks", each(c, &g.Sources, decodeSource), "groundingSupports", each(c, &g.Supports, decodeSupport))
	return g
}

// decodeSource reads one of groundingChunks, which holds its source in a member named after its
// kind: web, retrievedContext, maps.
func decodeSource(c *rawjson.Cursor) perigee.Source {
	var s perigee.Source
	for range c.Object() {
		if c.Kind() == rawjson.Object {
			c.Read(nil, "uri", &s.URL, "title", &s.Title)
		}
	}
	return s
}

func decodeSupport(c *rawjson.Cursor) perigee.Support {
	var s perigee.Support
	read(c, nil, "groundingChunkIndices", each(c, &s.Sources, (*rawjson.Cursor).Int64), "segment", func() {
		read(c, nil, "startIndex", &s.Start, "endIndex", &s.End, "text", &s.Text)
	})
	return s
}

// decodeLogprobs reads logprobsResult. Invalid members are left out, too.
func decodeLogprobs(raw []byte) *perigee.Logprobs {
	l := &perigee.Logprobs{}
	c := rawjson.NewCursor(raw)
	top := func(c *rawjson.Cursor) (tokens []perigee.Token) {
		c.Read(nil, "candidates", each(c, &tokens, decodeToken))
		return tokens
	}
	read(c, nil, "chosenCandidates", each(c, &l.Chosen, decodeToken), "topCandidates", each(c, &l.Top, top))
	return l
}

func decodeToken(c *rawjson.Cursor) perigee.Token {
	var t perigee.Token
	read(c, nil, "token", &t.Text, "logProbability", &t.Logprob)
	return t
}
