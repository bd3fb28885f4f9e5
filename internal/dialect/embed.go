package dialect

import (
	"math"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// WriteEmbedInputs writes the texts of inputs as a list of strings, for methods that turn only texts
// into vectors. The notes are on the members of the inputs that these methods lack.
func WriteEmbedInputs(w *rawjson.Writer, inputs []perigee.EmbedInput) ([]perigee.Note, error) {
	var lost perigee.Notes
	w.Array()
	for i := range inputs {
		in := &inputs[i]
		text, err := EmbedText(in)
		if err != nil {
			return nil, err
		}
		w.Raw(text)
		if in.TaskType != "" {
			lost.Dropped("taskType")
		}
		if in.Title != "" {
			lost.Dropped("title")
		}
		for _, field := range in.Extra {
			lost.Unknown("", []byte(field.Name))
		}
	}
	w.EndArray()
	return lost.List(), nil
}

// EmbedText returns the text of an input as a JSON string, for a method that takes nothing else.
func EmbedText(in *perigee.EmbedInput) ([]byte, error) {
	size := 0
	for _, part := range in.Content.Parts {
		size += part.Text.Size()
	}
	lines := rawjson.NewLineJoiner(size)
	for _, part := range in.Content.Parts {
		if part.Kind != perigee.PartText {
			return nil, perigee.Errorf(perigee.ClassInvalid, "this provider makes embeddings of text only").
				WithHint("send text, or choose an embedding model that takes other media")
		}
		lines.Add(part.Text.Form())
	}
	return lines.JSON(), nil
}

// ReadVector reads a list of numbers. A null, which some servers have in place of a number that is not
// finite, is not a number.
func ReadVector(c *rawjson.Cursor) (vector []float32) {
	for range c.Array() {
		if c.Kind() == rawjson.Null {
			c.Skip()
			vector = append(vector, float32(math.NaN()))
			continue
		}
		vector = append(vector, float32(c.Float64()))
	}
	return vector
}
