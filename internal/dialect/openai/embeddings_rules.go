package openai

import (
	"strings"

	"perigee"
)

// EmbeddingsRules says what becomes of each field of a request for embeddings.
func EmbeddingsRules() []perigee.FieldRule {
	with := func(more string) string { return `{"model":"gemini-embedding-001","input":"hi"` + more + `}` }
	return []perigee.FieldRule{
		{Field: "model", Handling: perigee.HandlingCarried, Becomes: "the model", Example: with(``)},
		{Field: "input", Handling: perigee.HandlingCarried, Becomes: "one content for each text", Example: `{"model":"gemini-embedding-001","input":["a","b"]}`},
		{Field: "input of tokens", Handling: perigee.HandlingRefused, Becomes: "they are another vendor's", Example: `{"model":"gemini-embedding-001","input":[[1,2]]}`},
		{Field: "input that is empty", Handling: perigee.HandlingRefused, Becomes: "there is nothing to embed", Example: `{"model":"gemini-embedding-001","input":["a",""]}`},
		{Field: "input of more than 2,048 texts", Handling: perigee.HandlingRefused, Becomes: "the API's own limit", Example: `{"model":"gemini-embedding-001","input":[` + strings.Repeat(`"a",`, maxInputs) + `"a"]}`},
		{Field: "dimensions", Handling: perigee.HandlingCarried, Becomes: "outputDimensionality", Example: with(`,"dimensions":256`)},
		{Field: "dimensions below 1", Handling: perigee.HandlingRefused, Becomes: "there are no such vectors", Example: with(`,"dimensions":0`)},
		{Field: "encoding_format of another name", Handling: perigee.HandlingRefused, Becomes: "want float or base64", Example: with(`,"encoding_format":"int8"`)},
		{Field: "encoding_format", Handling: perigee.HandlingCarried, Becomes: "float or base64", Example: with(`,"encoding_format":"base64"`)},
		{Field: "user", Handling: perigee.HandlingAccepted, Becomes: "for the vendor's records", Example: with(`,"user":"bob"`)},
	}
}
