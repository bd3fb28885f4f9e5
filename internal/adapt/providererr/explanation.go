package providererr

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxExplanation is how many bytes an Explanation has at most.
const maxExplanation = 500

// Explanation returns the words in the body of an error that has no message where its API has one.
// They are plain text, or under detail, message and the like, with the path under loc before them:
// web frameworks list invalid members that way. It is one line, without half a word at its end. It is
// empty for a page, and if there are no words.
func Explanation(body []byte) string {
	text := ""
	switch body = bytes.TrimSpace(body); {
	case json.Valid(body):
		text = wordsOf(body, 0)
	case utf8.Valid(body) && !bytes.HasPrefix(body, []byte("<")):
		text = string(body)
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	text = strings.Join(words, " ")
	if len(text) > maxExplanation {
		// Half a key would not be recognized as one, and would not be redacted.
		text = text[:strings.LastIndex(text[:maxExplanation-len("…")], " ")+1] + "…"
	}
	return strings.TrimPrefix(text, "…")
}

// wordsOf returns the words in a value of JSON.
func wordsOf(raw json.RawMessage, depth int) string {
	var words string
	if depth > maxNesting || json.Unmarshal(raw, &words) == nil {
		return words
	}
	var list []string
	for _, element := range listOf(raw) {
		if words := wordsOf(element, depth+1); words != "" {
			list = append(list, words)
		}
	}
	o := objectOf(raw)
	for _, key := range []string{"msg", "message", "detail", "details", "error", "errors"} {
		if words := wordsOf(o[key], depth+1); words != "" {
			return strings.TrimPrefix(pathOf(o["loc"])+": "+words, ": ")
		}
	}
	return strings.Join(list, "; ")
}

// pathOf returns a path of names and numbers.
func pathOf(raw json.RawMessage) string {
	var names []string
	for _, element := range listOf(raw) {
		names = append(names, textOf(element))
	}
	return strings.Join(names, ".")
}
