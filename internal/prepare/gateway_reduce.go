package prepare

import (
	"bytes"
	"slices"

	"perigee"
	"perigee/internal/rawjson"
)

// The keywords that a schema is reduced to: those that every model was ever seen to take, and where these were all that
// it had, those without which it is none.
var (
	plainWords = []string{"type", "description", "enum", "required"}
	bareWords  = []string{"type"}
)

// reduceAll takes out of all schemas what the provider may have refused. They have been cleaned before, so that words and
// names can be told apart by their places.
func reduceAll(functions []perigee.Function) {
	for _, words := range [][]string{plainWords, bareWords} {
		changed := false
		for i := range functions {
			f := &functions[i]
			if f.Parameters == nil {
				continue
			}
			reduced := reduce(nil, rawjson.NewCursor(f.Parameters), words)
			changed = changed || !bytes.Equal(reduced, f.Parameters)
			f.Parameters = reduced
		}
		if changed {
			return
		}
	}
}

// reduce appends the next value, a schema, with no other keywords than those given, and those that hold schemas.
func reduce(dst []byte, c *rawjson.Cursor, words []string) []byte {
	if c.Kind() != rawjson.Object {
		return append(dst, c.Raw()...)
	}
	dst = append(dst, '{')
	opened := len(dst)
	for key := range c.Object() {
		name := string(key)
		switch {
		case name == "properties" && c.Kind() == rawjson.Object:
			dst = append(separate(dst, opened), `"properties":{`...)
			first := len(dst)
			for property := range c.Object() {
				dst = rawjson.AppendString(separate(dst, first), string(property))
				dst = reduce(append(dst, ':'), c, words)
			}
			dst = append(dst, '}')
		case name == "items":
			dst = reduce(append(separate(dst, opened), `"items":`...), c, words)
		case slices.Contains(words, name):
			dst = rawjson.AppendString(separate(dst, opened), name)
			dst = append(append(dst, ':'), c.Raw()...)
		}
	}
	return append(dst, '}')
}
