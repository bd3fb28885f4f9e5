package gemini

import (
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// embedShapes are the members of an embedding request whose kind is checked before anything is sent.
var embedShapes = map[string]rawjson.Kind{"content": rawjson.Object, "requests": rawjson.Array}

// DecodeEmbed reads the body of embedContent, or of batchEmbedContents when batch is set. The bytes go on as they
// are, so what is to be embedded is not taken out of them.
func DecodeEmbed(origin perigee.Origin, model string, batch bool) (*perigee.EmbedRequest, error) {
	if _, _, err := checkShapes(origin.Body, embedShapes); err != nil {
		return nil, err
	}
	place, other, err := otherModel(origin.Body, model)
	if err != nil {
		return nil, invalidMembers(err)
	}
	if other != "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "%s is %s, but the URL names %s", place, other, ModelID(model)).
			WithNext("ask each model by a URL of its own")
	}
	origin.Dialect = perigee.DialectGemini
	return &perigee.EmbedRequest{Origin: origin, Model: ModelID(model), Batch: batch}, nil
}

// EncodeEmbed writes the body of batchEmbedContents.
func EncodeEmbed(req *perigee.EmbedRequest) []byte {
	w := writer{}
	w.open()
	w.key("requests")
	w.list(len(req.Inputs), func(i int) {
		in := &req.Inputs[i]
		w.open()
		w.text("model", "models/"+req.Model)
		w.key("content")
		w.content(&in.Content)
		w.text("taskType", in.TaskType)
		w.text("title", in.Title)
		if in.Dimensions > 0 {
			w.int("outputDimensionality", &in.Dimensions)
		}
		w.fields(in.Extra)
		w.close()
	})
	w.close()
	return w.buf
}

// EstimateEmbed is about how many tokens the body of embedContent or batchEmbedContents has.
func EstimateEmbed(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	count := func(c *rawjson.Cursor) {
		prompt := perigee.Prompt{Contents: []perigee.Content{decodeContent(c)}}
		tokens += prompt.EstimateTokens()
	}
	for key := range c.Object() {
		switch string(key) {
		case "content":
			count(c)
		case "requests":
			for range c.Array() {
				for key := range c.Object() {
					if string(key) == "content" {
						count(c)
					}
				}
			}
		}
	}
	return tokens
}

// DecodeEmbeddings reads the provider's answer to either call, and how many tokens it names; 0: none.
func DecodeEmbeddings(body []byte) (vectors [][]float32, tokens int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, 0, err
	}
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		switch string(key) {
		case "embedding":
			vectors = append(vectors, decodeVector(c))
		case "embeddings":
			for range c.Array() {
				vectors = append(vectors, decodeVector(c))
			}
		case "usageMetadata":
			tokens = embedUsage(c)
		}
	}
	return vectors, tokens, c.Err()
}

// EmbedTokens is how many tokens the provider names in an answer that was checked before; 0: it names none.
func EmbedTokens(body []byte) (tokens int64) {
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		if string(key) == "usageMetadata" {
			tokens = embedUsage(c)
		}
	}
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
	for key := range c.Object() {
		if string(key) == "values" {
			for range c.Array() {
				v = append(v, float32(c.Float64()))
			}
		}
	}
	return v
}

// EncodeEmbeddings writes the answer to embedContent, or to batchEmbedContents when batch is set.
func EncodeEmbeddings(e *perigee.Embeddings, batch bool) []byte {
	if e.Raw != nil {
		return e.Raw
	}
	w := writer{}
	w.open()
	if batch {
		w.key("embeddings")
		w.list(len(e.Vectors), func(i int) { w.vector(e.Vectors[i]) })
	} else {
		w.key("embedding")
		w.vector(e.Vectors[0])
	}
	w.close()
	return w.buf
}

func (w *writer) vector(v []float32) {
	w.open()
	w.key("values")
	w.list(len(v), func(i int) { w.buf = strconv.AppendFloat(w.buf, float64(v[i]), 'g', -1, 32) })
	w.close()
}

// DecodeTokenCount reads the provider's answer to countTokens.
func DecodeTokenCount(body []byte) (*perigee.TokenCount, error) {
	if err := rawjson.Check(body); err != nil {
		return nil, err
	}
	count := &perigee.TokenCount{}
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		switch camel(key) {
		case "totalTokens":
			count.Total = c.Int64()
		case "cachedContentTokenCount":
			count.Cached = c.Int64()
		}
	}
	return count, c.Err()
}

// EncodeTokenCount writes the answer to countTokens.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	if count.Raw != nil {
		return count.Raw
	}
	w := writer{}
	w.open()
	w.int("totalTokens", &count.Total)
	if count.Cached > 0 {
		w.int("cachedContentTokenCount", &count.Cached)
	}
	w.close()
	return w.buf
}

// EncodeCountRequest writes the body of countTokens for a prompt that came in another dialect. Only the
// wrapped form counts the system instruction and the tools as well.
func EncodeCountRequest(p *perigee.Prompt, model string) []byte {
	inner := EncodeRequest(p)
	w := writer{}
	w.open()
	w.key("generateContentRequest")
	w.buf = append(w.buf, `{"model":`...)
	w.value("models/" + model)
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, inner[1:]...)
	w.close()
	return w.buf
}
