package ollama

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// EncodeEmbed writes the body of POST /api/embed for inputs with the same dimensions, and returns
// notes on the members that the method lacks. truncate is false: an input that is too long is an
// error.
func EncodeEmbed(e Envelope, inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error) {
	var w rawjson.Writer
	w.Object().Key("model").String(e.Model).Key("input")
	notes, err := dialect.WriteEmbedInputs(&w, inputs)
	if err != nil {
		return nil, nil, err
	}
	w.Members(`"truncate":false`)
	if dimensions := inputs[0].Dimensions; dimensions > 0 {
		w.Key("dimensions").Int(dimensions)
	}
	if e.KeepAlive != "" {
		w.Key("keep_alive").String(e.KeepAlive)
	}
	return w.EndObject().Buf, notes, nil
}

// DecodeEmbeddings reads the answer of POST /api/embed: the vectors in the order of their inputs, and
// the number of tokens; 0 if the server reports none.
func DecodeEmbeddings(body []byte) (vectors [][]float32, tokens int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, 0, err
	}
	c := rawjson.NewCursor(body)
	c.Read(nil, "prompt_eval_count", &tokens, "embeddings", func() {
		for range c.Array() {
			vectors = append(vectors, dialect.ReadVector(c))
		}
	})
	return vectors, max(tokens, 0), c.Err()
}
