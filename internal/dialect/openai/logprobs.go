package openai

import (
	"encoding/json"
	"math"
	"strconv"

	"perigee/internal/rawjson"
)

// A token is a piece of text and how likely it was.
type token struct {
	text    string
	logprob float64
}

// appendLogprobs appends the items of logprobs.content for the provider's logprobsResult, without brackets.
func appendLogprobs(dst []byte, result json.RawMessage) []byte {
	var chosen []token
	var top [][]token
	c := rawjson.NewCursor(result)
	for key := range c.Object() {
		switch string(key) {
		case "chosenCandidates":
			chosen = readTokens(c)
		case "topCandidates":
			for range c.Array() {
				var tokens []token
				for key := range c.Object() {
					if string(key) == "candidates" {
						tokens = readTokens(c)
					}
				}
				top = append(top, tokens)
			}
		}
	}
	for i, t := range chosen {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendToken(dst, t)
		dst = append(dst, `,"top_logprobs":[`...)
		if i < len(top) {
			for j, alternative := range top[i] {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, '{')
				dst = appendToken(dst, alternative)
				dst = append(dst, '}')
			}
		}
		dst = append(dst, "]}"...)
	}
	return dst
}

func readTokens(c *rawjson.Cursor) []token {
	var tokens []token
	for range c.Array() {
		var t token
		for key := range c.Object() {
			switch string(key) {
			case "token":
				t.text = c.String()
			case "logProbability":
				t.logprob = c.Float64()
			}
		}
		tokens = append(tokens, t)
	}
	return tokens
}

func appendToken(dst []byte, t token) []byte {
	if math.IsInf(t.logprob, 0) || math.IsNaN(t.logprob) {
		t.logprob = -9999 // what this API gives for next to impossible
	}
	dst = append(dst, `"token":`...)
	dst = rawjson.AppendString(dst, t.text)
	dst = append(dst, `,"logprob":`...)
	dst = strconv.AppendFloat(dst, t.logprob, 'g', -1, 64)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(t.text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(t.text[i]), 10)
	}
	return append(dst, ']')
}
