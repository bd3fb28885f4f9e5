package gemini

import (
	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// EncodePredict writes the body of predict, which turns texts into vectors at Vertex AI. All inputs
// have the same dimensions. An input that is too long is an error, and is not cut. The notes are on
// members that the method lacks.
func EncodePredict(inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error) {
	var lost perigee.Notes
	var problem error
	w := writer{}
	w.Object()
	w.list("instances", len(inputs), func(i int) {
		in := &inputs[i]
		text, err := dialect.EmbedText(in)
		if err != nil {
			problem = err
			return
		}
		w.Object().Key("content").Raw(text)
		w.text("task_type", in.TaskType)
		w.text("title", in.Title)
		w.EndObject()
		loseExtra(&lost, in)
	})
	if problem != nil {
		return nil, nil, problem
	}
	w.Key("parameters").Object().Members(`"autoTruncate":false`)
	w.count("outputDimensionality", inputs[0].Dimensions)
	return w.EndObject().EndObject().Buf, lost.List(), nil
}

// EncodeVertexEmbed writes the body of embedContent at Vertex AI for one input. It keeps what
// EncodePredict keeps, and other media than text.
func EncodeVertexEmbed(in *perigee.EmbedInput) ([]byte, []perigee.Note) {
	var lost perigee.Notes
	content := in.Content
	if content.Role == "" {
		content.Role = perigee.RoleUser
	}
	w := writer{}
	w.Object().Key("content")
	w.content(&content)
	w.Key("embedContentConfig").Object().Members(`"autoTruncate":false`)
	w.text("taskType", in.TaskType)
	w.text("title", in.Title)
	w.count("outputDimensionality", in.Dimensions)
	loseExtra(&lost, in)
	return w.EndObject().EndObject().Buf, lost.List()
}

func loseExtra(lost *perigee.Notes, in *perigee.EmbedInput) {
	for _, field := range in.Extra {
		lost.Unknown("", []byte(field.Name))
	}
}

// DecodePredictions reads the answer to predict, or to embedContent at Vertex AI: the vectors in the
// order of their inputs, and the number of tokens; 0 if there is none. An input that was cut is an
// error.
func DecodePredictions(body []byte) (vectors [][]float32, tokens int64, err error) {
	if err := rawjson.Check(body); err != nil {
		return nil, 0, err
	}
	c := rawjson.NewCursor(body)
	var cut bool
	isCut := func() { cut = c.Bool() || cut }
	c.Read(nil, "truncated", isCut, "predictions", func() {
		for range c.Array() {
			c.Read(nil, "embeddings", func() {
				var vector []float32
				var count int64
				c.Read(nil, "values", func() { vector = dialect.ReadVector(c) },
					"statistics", func() { c.Read(nil, "token_count", &count, "truncated", isCut) })
				vectors, tokens = append(vectors, vector), tokens+count
			})
		}
	}, "embedding", func() { vectors = append(vectors, decodeVector(c)) }, "usageMetadata", func() { tokens += embedUsage(c) })
	if cut && c.Err() == nil {
		return nil, tokens, perigee.Errorf(perigee.ClassInvalid, "an input is longer than the model takes, and the provider has cut it").
			WithHint("send shorter inputs")
	}
	return vectors, tokens, c.Err()
}
