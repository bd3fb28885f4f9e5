package gemini

import (
	"perigee"
	"perigee/internal/rawjson"
)

// decodeGrounding reads groundingMetadata. It stands beside the answer, so what is wrong in it is left out and fails nothing.
func decodeGrounding(raw []byte) *perigee.Grounding {
	g := &perigee.Grounding{}
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch camel(key) {
		case "webSearchQueries":
			for range c.Array() {
				g.Queries = append(g.Queries, c.String())
			}
		case "groundingChunks":
			for range c.Array() {
				g.Sources = append(g.Sources, decodeSource(c))
			}
		case "groundingSupports":
			for range c.Array() {
				g.Supports = append(g.Supports, decodeSupport(c))
			}
		}
	}
	return g
}

// decodeSource reads one of groundingChunks, which holds its source in a member named after its kind: web, retrievedContext,
// maps.
func decodeSource(c *rawjson.Cursor) perigee.Source {
	var s perigee.Source
	for range c.Object() {
		if c.Kind() != rawjson.Object {
			continue
		}
		for key := range c.Object() {
			switch string(key) {
			case "uri":
				s.URL = c.String()
			case "title":
				s.Title = c.String()
			}
		}
	}
	return s
}

func decodeSupport(c *rawjson.Cursor) perigee.Support {
	var s perigee.Support
	for key := range c.Object() {
		switch camel(key) {
		case "segment":
			for key := range c.Object() {
				switch camel(key) {
				case "startIndex":
					s.Start = int(c.Int64())
				case "endIndex":
					s.End = int(c.Int64())
				case "text":
					s.Text = c.String()
				}
			}
		case "groundingChunkIndices":
			for range c.Array() {
				s.Sources = append(s.Sources, c.Int64())
			}
		}
	}
	return s
}

// decodeLogprobs reads logprobsResult, in the same spirit.
func decodeLogprobs(raw []byte) *perigee.Logprobs {
	l := &perigee.Logprobs{}
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch camel(key) {
		case "chosenCandidates":
			l.Chosen = decodeTokens(c)
		case "topCandidates":
			for range c.Array() {
				var tokens []perigee.Token
				for key := range c.Object() {
					if string(key) == "candidates" {
						tokens = decodeTokens(c)
					}
				}
				l.Top = append(l.Top, tokens)
			}
		}
	}
	return l
}

func decodeTokens(c *rawjson.Cursor) []perigee.Token {
	var tokens []perigee.Token
	for range c.Array() {
		var t perigee.Token
		for key := range c.Object() {
			switch camel(key) {
			case "token":
				t.Text = c.String()
			case "logProbability":
				t.Logprob = c.Float64()
			}
		}
		tokens = append(tokens, t)
	}
	return tokens
}
