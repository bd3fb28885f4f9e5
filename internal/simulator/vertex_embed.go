package simulator

import (
	"net/http"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// A vertexEmbedder is an embedding model at Vertex AI.
type vertexEmbedder struct {
	id, method string
	instances  int // in one request
	dimensions int
	context    int64 // tokens of each input
}

var vertexEmbedders = []vertexEmbedder{
	{"gemini-embedding-001", "predict", 1, defaultDimensions, 2048},
	{"gemini-embedding-2", "embedContent", 1, defaultDimensions, 8192},
	{"text-embedding-005", "predict", 250, 768, 2048},
	{"text-multilingual-embedding-002", "predict", 250, 768, 2048},
}

// maxPredictTokens is the maximum number of tokens of all instances of a request.
const maxPredictTokens = 20_000

func findVertexEmbedder(id string) (vertexEmbedder, bool) {
	i := slices.IndexFunc(vertexEmbedders, func(e vertexEmbedder) bool { return e.id == id })
	if i < 0 {
		return vertexEmbedder{}, false
	}
	return vertexEmbedders[i], true
}

func (e vertexEmbedder) model() rules.Model {
	return rules.Model{ID: e.id, Family: rules.Embedding, Context: e.context}
}

// A vertexText is one text of a request to predict.
type vertexText struct {
	Content string `json:"content"`
	Task    string `json:"task_type"`
	Title   string `json:"title"`
	MIME    string `json:"mimeType"`
}

// vertexEmbed serves the one method of an embedding model.
func (x *exchange) vertexEmbed(p vertexPath, model rules.Model) {
	e, known := findVertexEmbedder(model.ID)
	switch {
	case !known || p.method != e.method:
		x.writeError(refuse(http.StatusBadRequest, "FAILED_PRECONDITION", "model.method", "The model `%s` does not support the method %s.", p.resource(), p.method))
	case p.method == "predict":
		x.predict(e)
	default:
		x.vertexEmbedContent(e)
	}
}

func (x *exchange) predict(e vertexEmbedder) {
	var body struct {
		Instances  []vertexText `json:"instances"`
		Parameters struct {
			Dimensions   int   `json:"outputDimensionality"`
			AutoTruncate *bool `json:"autoTruncate"`
		} `json:"parameters"`
	}
	if !x.readEmbed(&body) {
		return
	}
	if n := len(body.Instances); n < 1 || n > e.instances {
		x.writeError(invalid("embed.batch", "%d instance(s) is not allowed in the current request. Max allowed: %d", n, e.instances))
		return
	}
	total, predictions := 0, []any{}
	for _, in := range body.Instances {
		vector, count, truncated, refused := x.vertexVector(e, in.Content, body.Parameters.Dimensions, body.Parameters.AutoTruncate)
		if refused != nil {
			x.writeError(refused)
			return
		}
		total += count
		predictions = append(predictions, map[string]any{"embeddings": map[string]any{"values": vector,
			"statistics": map[string]any{"truncated": truncated, "token_count": count}}})
	}
	if total > maxPredictTokens {
		x.writeError(invalid("embed.tokens", "Unable to submit request because the input token count is %d but the model supports up to %d.", total, maxPredictTokens))
		return
	}
	if x.strikeSmall(stageCapacity) {
		return
	}
	characters := 0
	for _, in := range body.Instances {
		characters += len(in.Content)
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"predictions": predictions, "metadata": map[string]int{"billableCharacterCount": characters}})
}

// vertexEmbedContent serves embedContent, which takes one content, of any media.
func (x *exchange) vertexEmbedContent(e vertexEmbedder) {
	var body struct {
		Content *struct {
			Role  string `json:"role"`
			Parts []struct {
				Text   string `json:"text"`
				Inline *struct {
					MIME string `json:"mimeType"`
					Data []byte `json:"data"`
				} `json:"inlineData"`
			} `json:"parts"`
		} `json:"content"`
		Config struct {
			Task         string `json:"taskType"`
			Title        string `json:"title"`
			Dimensions   int    `json:"outputDimensionality"`
			AutoTruncate *bool  `json:"autoTruncate"`
		} `json:"embedContentConfig"`
	}
	if !x.readEmbed(&body) {
		return
	}
	var text strings.Builder
	if body.Content != nil {
		for _, part := range body.Content.Parts {
			text.WriteString(part.Text)
			if part.Inline != nil {
				text.WriteString(" " + part.Inline.MIME)
			}
		}
	}
	vector, count, truncated, refused := x.vertexVector(e, text.String(), body.Config.Dimensions, body.Config.AutoTruncate)
	if refused != nil {
		x.writeError(refused)
		return
	}
	if x.strikeSmall(stageCapacity) {
		return
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"embedding": embedding{vector}, "truncated": truncated,
		"usageMetadata": map[string]int{"promptTokenCount": count, "totalTokenCount": count}})
}

// readEmbed reads a body, whose members are all known.
func (x *exchange) readEmbed(body any) bool {
	err := decodeKnown(x.body, body)
	if err != nil {
		x.writeError(invalid("embed.body", "Invalid JSON payload received. %s", strings.TrimPrefix(err.Error(), "json: ")))
	}
	return err == nil
}

// vertexVector returns the vector of a text, and the number of its tokens. A text that is too long is
// cut, unless that is turned off.
func (x *exchange) vertexVector(e vertexEmbedder, text string, size int, cut *bool) (vector []float64, count int, truncated bool, refused *statusError) {
	if size == 0 {
		size = e.dimensions
	}
	switch {
	case text == "":
		return nil, 0, false, invalid("embed.content", "The text content is empty.")
	case size < 1 || size > e.dimensions:
		return nil, 0, false, invalid("embed.dimensions", "outputDimensionality must be from 1 to %d", e.dimensions)
	}
	if limit := int(e.context) * bytesPerToken; len(text) > limit {
		if cut != nil && !*cut {
			return nil, 0, false, invalid("embed.too_long", "The input token count is %d but the model supports up to %d.", tokens(len(text)), e.context)
		}
		text, truncated = strings.ToValidUTF8(text[:limit], ""), true
	}
	return x.server.vector(e.id, text, size), tokens(len(text)), truncated, nil
}
