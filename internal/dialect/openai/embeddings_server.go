package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// EncodeEmbeddingsRequest writes the body of POST /v1/embeddings for inputs that came in another
// dialect. All of them have the same dimensions. The notes are on what the API does not take.
func EncodeEmbeddingsRequest(model string, inputs []perigee.EmbedInput) (body []byte, notes []perigee.Note, err error) {
	w := new(rawjson.Writer).Object().Key("model").String(model).Key("input")
	if notes, err = dialect.WriteEmbedInputs(w, inputs); err != nil {
		return nil, nil, err
	}
	if dimensions := inputs[0].Dimensions; dimensions > 0 {
		w.Key("dimensions").Int(dimensions)
	}
	return w.EndObject().Buf, notes, nil
}

// An embedded is one vector of an answer.
type embedded struct {
	index  int64
	vector []float32
}

// DecodeVectors reads the answer of POST /v1/embeddings: the vectors in the order of their inputs, and
// the number of tokens; 0 if the server reports none.
func DecodeVectors(body []byte) (vectors [][]float32, tokens int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, 0, err
	}
	c := rawjson.NewCursor(body)
	var list []embedded
	var broken error
	c.Read(nil, "data", func() {
		for i := range c.Array() {
			e := embedded{index: int64(i)}
			c.Read(nil, "index", &e.index, "embedding", func() {
				if e.vector, err = decodeVector(c); err != nil {
					broken = fmt.Errorf("vector %d: %w", i, err)
				}
			})
			list = append(list, e)
		}
	}, "usage", func() { tokens = embeddingUsage(c) })
	if err := errors.Join(c.Err(), broken); err != nil {
		return nil, 0, err
	}
	slices.SortStableFunc(list, func(a, b embedded) int { return int(a.index - b.index) })
	for _, e := range list {
		vectors = append(vectors, e.vector)
	}
	return vectors, tokens, nil
}

// decodeVector reads a vector: numbers, or the base64 of little-endian 32-bit numbers.
func decodeVector(c *rawjson.Cursor) (vector []float32, err error) {
	if c.Kind() != rawjson.String {
		return dialect.ReadVector(c), nil
	}
	raw, err := base64.StdEncoding.DecodeString(c.String())
	if err == nil && len(raw)%4 != 0 {
		err = fmt.Errorf("%d bytes are no numbers of 32 bits", len(raw))
	}
	if err != nil {
		return nil, err
	}
	vector = make([]float32, 0, len(raw)/4)
	for ; len(raw) > 0; raw = raw[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return vector, nil
}

// EmbeddingTokens returns the number of tokens that a server reports in an answer that was checked
// before, or 0 if it reports none.
func EmbeddingTokens(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	c.Read(nil, "usage", func() { tokens = embeddingUsage(c) })
	return tokens
}

// embeddingUsage reads the usage of an answer.
func embeddingUsage(c *rawjson.Cursor) int64 {
	if c.Kind() != rawjson.Object {
		return 0
	}
	prompt, total := int64(0), int64(0)
	for key := range c.Object() {
		switch string(key) {
		case "prompt_tokens":
			prompt = count(c)
		case "total_tokens":
			total = count(c)
		}
	}
	return cmp.Or(prompt, total)
}

// EstimateEmbeddings estimates the tokens of the body of POST /v1/embeddings, which may be invalid.
func EstimateEmbeddings(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	var add func()
	add = func() {
		switch c.Kind() {
		case rawjson.String:
			text := perigee.Part{Text: perigee.Plain(c.Alias())}
			tokens += perigee.EstimateEmbedding([]perigee.EmbedInput{{Content: perigee.Content{Parts: []perigee.Part{text}}}})
		case rawjson.Number:
			tokens++
		case rawjson.Array: // of inputs, or of the tokens of one
			for range c.Array() {
				add()
			}
		}
	}
	c.Read(nil, "input", add)
	return tokens
}
