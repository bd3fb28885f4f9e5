package gemini

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// embedShapes are the JSON kinds of members of an embedding request that are checked before
// anything is sent.
var embedShapes = map[string]rawjson.Kind{"content": rawjson.Object, "requests": rawjson.Array}

// DecodeEmbed reads the body of embedContent, or of batchEmbedContents when batch is set. The body
// is forwarded unchanged to the API, so the inputs are decoded only for other providers.
func DecodeEmbed(origin perigee.Origin, model string, batch bool) (*perigee.EmbedRequest, error) {
	if _, err := checkShapes(origin.Body, embedShapes, func(string, []byte) {}); err != nil {
		return nil, err
	}
	place, other, err := otherModel(origin.Body, model)
	if err != nil {
		return nil, invalidMembers(err)
	}
	if other != "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s is %s, but the URL names %s", place, other, ModelID(model)).
			WithHint("send one request per model")
	}
	origin.Dialect = perigee.DialectGemini
	decode := func() ([]perigee.EmbedInput, []perigee.Note, error) { return decodeInputs(origin.Body, batch) }
	return &perigee.EmbedRequest{Origin: origin, Model: ModelID(model), Batch: batch, Decode: decode}, nil
}

// decodeInputs reads the inputs of a body that was checked before.
func decodeInputs(body []byte, batch bool) (inputs []perigee.EmbedInput, lost []perigee.Note, err error) {
	c := rawjson.NewCursor(body)
	if batch {
		read(c, nil, "requests", each(c, &inputs, decodeInput))
	} else {
		inputs = append(inputs, decodeInput(c))
	}
	switch {
	case c.Err() != nil:
		return nil, nil, invalidMembers(c.Err())
	case len(inputs) == 0:
		return nil, nil, perigee.Errorf(perigee.ClassInvalid, "requests: at least one request is required")
	}
	return inputs, nil, nil
}

func decodeInput(c *rawjson.Cursor) (in perigee.EmbedInput) {
	var model string
	read(c, &in.Extra, "model", &model, "content", func() { in.Content = decodeContent(c) },
		"taskType", &in.TaskType, "title", &in.Title, "outputDimensionality", &in.Dimensions)
	return in
}

// EncodeEmbed writes the body of batchEmbedContents.
func EncodeEmbed(model string, inputs []perigee.EmbedInput) []byte {
	w := writer{}
	w.Object()
	w.list("requests", len(inputs), func(i int) {
		in := &inputs[i]
		w.Object().Key("model").String("models/" + model).Key("content")
		w.content(&in.Content)
		w.text("taskType", in.TaskType)
		w.text("title", in.Title)
		w.count("outputDimensionality", in.Dimensions)
		w.end(in.Extra)
	})
	return w.EndObject().Buf
}

// EstimateEmbed estimates the tokens of the body of embedContent or batchEmbedContents.
func EstimateEmbed(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	count := func() {
		prompt := perigee.Prompt{Contents: []perigee.Content{decodeContent(c)}}
		tokens += prompt.EstimateTokens()
	}
	c.Read(nil, "content", count, "requests", func() {
		for range c.Array() {
			c.Read(nil, "content", count)
		}
	})
	return tokens
}

// DecodeEmbeddings reads the provider's answer to either call, and how many tokens it names; 0 if
// there is none.
func DecodeEmbeddings(body []byte) (vectors [][]float32, tokens int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, 0, err
	}
	c := rawjson.NewCursor(body)
	c.Read(nil, "embedding", func() { vectors = append(vectors, decodeVector(c)) }, "embeddings", each(c, &vectors, decodeVector),
		"usageMetadata", func() { tokens = embedUsage(c) })
	return vectors, tokens, c.Err()
}

// EmbedTokens returns the number of tokens that the provider reports in an answer that was checked
// before, or 0 if it reports none.
func EmbedTokens(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	c.Read(nil, "usageMetadata", func() { tokens = embedUsage(c) })
	return tokens
}

func embedUsage(c *rawjson.Cursor) int64 {
	if usage := decodeUsage(c); usage != nil {
		return usage.Input
	}
	return 0
}

func decodeVector(c *rawjson.Cursor) []float32 {
	var v []float32
	c.Read(nil, "values", func() { v = dialect.ReadVector(c) })
	return v
}

// EncodeEmbeddings writes the answer to embedContent, or to batchEmbedContents when batch is set.
func EncodeEmbeddings(e *perigee.Embeddings, batch bool) []byte {
	if e.Raw != nil {
		return e.Raw
	}
	w := writer{}
	w.Object()
	if batch {
		w.list("embeddings", len(e.Vectors), func(i int) { w.vector(e.Vectors[i]) })
	} else {
		w.Key("embedding")
		w.vector(e.Vectors[0])
	}
	if !e.Estimate {
		w.Key("usageMetadata").Object().Key("promptTokenCount").Int(e.Usage.Input).EndObject()
	}
	return w.EndObject().Buf
}

func (w *writer) vector(v []float32) {
	w.Object()
	w.list("values", len(v), func(i int) { w.Float(float64(v[i]), 32) })
	w.EndObject()
}

// DecodeTokenCount reads the provider's answer to countTokens.
func DecodeTokenCount(body []byte) (*perigee.TokenCount, error) {
	if err := rawjson.Check(body); err != nil {
		return nil, err
	}
	count := &perigee.TokenCount{}
	c := rawjson.NewCursor(body)
	read(c, nil, "totalTokens", &count.Total, "cachedContentTokenCount", &count.Cached)
	return count, c.Err()
}

// EncodeTokenCount writes the answer to countTokens.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	if count.Raw != nil {
		return count.Raw
	}
	w := writer{}
	w.Object().Key("totalTokens").Int(count.Total)
	w.count("cachedContentTokenCount", count.Cached)
	return w.EndObject().Buf
}

// EncodeCountRequest writes the body of countTokens for a prompt that came in another dialect. Only
// the wrapped form counts the system instruction and the tools as well.
func EncodeCountRequest(p *perigee.Prompt, model string) []byte {
	request := EncodeRequest(p)
	var w rawjson.Writer
	w.Object().Key("generateContentRequest").Object().Key("model").String("models/" + model)
	return w.Elements(request[1:]).EndObject().Buf
}
