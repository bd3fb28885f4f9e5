package ollama

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	"perigee/internal/simulator/completion"
)

// Embeddings is a request to /api/embed that the rules accept.
type Embeddings struct {
	Model   Model
	Texts   []string // as the model sees them
	Size    int      // dimensions
	Prompt  int
	Loaded  int           // as in Chat
	Load    time.Duration // as in Chat
	Ignored []string

	name string
}

// CheckEmbed applies the rules of /api/embed. Exactly one of its results is nil.
func CheckEmbed(in Input) (*Embeddings, *Refusal) {
	var request EmbedRequest
	if refusal := decode(in.Body, &request); refusal != nil {
		return nil, refusal
	}
	e := &Embeddings{name: request.Model, Ignored: ignored(in.Body, reflect.TypeFor[EmbedRequest]())}
	switch input := request.Input.(type) {
	case nil:
	case string:
		if input != "" {
			e.Texts = []string{input}
		}
	case []any:
		for _, each := range input {
			text, ok := each.(string)
			if !ok {
				return nil, refuse(http.StatusBadRequest, "embed.input", "invalid input type")
			}
			e.Texts = append(e.Texts, text)
		}
	default:
		return nil, refuse(http.StatusBadRequest, "embed.input", "invalid input type")
	}
	var refusal *Refusal
	if e.Model, refusal = find(request.Model); refusal != nil {
		if refusal.Status == http.StatusNotFound {
			refusal.Message = strings.ReplaceAll(refusal.Message, "'", `"`) + ", try pulling it first"
		}
		return nil, refusal
	}
	o, refusal := readOptions(request.Options)
	if refusal != nil {
		return nil, refusal
	}
	context, loaded := in.Runners.use(e.Model, o, request.KeepAlive, in.Now)
	if loaded {
		e.Loaded = context
	}
	if !e.Model.can("embedding") {
		return nil, refuse(http.StatusNotImplemented, "embed.model", "this model does not support embeddings")
	}
	e.Size = e.Model.Dimensions
	if request.Dimensions > 0 {
		e.Size = min(e.Size, request.Dimensions)
	}
	for i, text := range e.Texts {
		if completion.Tokens(len(text)) > context {
			if request.Truncate != nil && !*request.Truncate {
				return nil, refuse(http.StatusBadRequest, "too_long", "the input length exceeds the context length")
			}
			e.Texts[i] = strings.ToValidUTF8(text[:context*completion.BytesPerToken], "")
		}
		e.Prompt += completion.Tokens(len(e.Texts[i]))
	}
	return e, nil
}

// Body is the answer with a vector for each text, in the precision of the server.
func (e *Embeddings) Body(vectors [][]float64) any {
	short := [][]float32{}
	for _, vector := range vectors {
		var values []float32
		for _, value := range vector {
			values = append(values, float32(value))
		}
		short = append(short, values)
	}
	load := max(e.Load, 10*time.Millisecond)
	return struct {
		Model   string        `json:"model"`
		Vectors [][]float32   `json:"embeddings"`
		Total   time.Duration `json:"total_duration,omitempty"`
		Load    time.Duration `json:"load_duration,omitempty"`
		Prompt  int           `json:"prompt_eval_count,omitempty"`
	}{e.name, short, load + time.Duration(e.Prompt)*promptTime, load, e.Prompt}
}
