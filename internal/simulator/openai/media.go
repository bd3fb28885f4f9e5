package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"perigee/internal/simulator/completion"
)

const (
	maxEmbedded       = 2048 // texts of one request
	defaultDimensions = 1024
	maxImages         = 10
)

// Embeddings is a request for embeddings that the rules accept.
type Embeddings struct {
	Model      *Model
	Texts      []string
	Dimensions int

	name   string
	binary bool
}

// CheckEmbeddings applies the rules of embeddings. Exactly one of its results is nil.
func CheckEmbeddings(in Input) (*Embeddings, *Error) {
	root, err := decode(in.Body)
	if err != nil {
		return nil, err
	}
	c := &checker{profile: in.Profile}
	c.known(root, "", "input", "model", "dimensions", "encoding_format", "user")
	e := &Embeddings{name: c.required(root, "", "model")}
	if c.err != nil {
		return nil, c.err
	}
	if e.Model = in.Profile.Model(e.name); e.Model == nil {
		return nil, noModel(e.name)
	}
	if !e.Model.Embeds && !in.Profile.AnyModel {
		return nil, &Error{Status: 403, Type: invalidRequest, Rule: "model_kind", Message: "You are not allowed to generate embeddings from this model"}
	}
	e.Dimensions = defaultDimensions
	if e.Model.Dimensions > 0 {
		e.Dimensions = e.Model.Dimensions
	}
	if n := c.integer(root, "", "dimensions", 1, float64(e.Dimensions)); n != nil {
		e.Dimensions = int(*n)
	}
	e.binary = c.oneOf(root, "", "encoding_format", "float", "base64") == "base64"
	c.text(root, "", "user")
	e.texts(c, root["input"])
	if c.err == nil && e.Model.Context > 0 {
		for _, text := range e.Texts {
			if n := completion.Tokens(len(text)); n > e.Model.Context {
				c.fail(tooLong("input", n, e.Model.Context))
			}
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return e, nil
}

// texts reads the input: a string, tokens, or an array of either.
func (e *Embeddings) texts(c *checker, input any) {
	switch v := input.(type) {
	case nil:
		c.fail(missing("input"))
	case string:
		e.Texts = []string{v}
	case []any:
		c.atMost(v, "input", maxEmbedded)
		if len(v) == 0 {
			c.fail(badValue("input", "empty_array", "empty array. Expected an array with minimum length 1, but got an empty array instead."))
			return
		}
		if _, isToken := v[0].(json.Number); isToken {
			e.Texts = []string{tokenText(c, v, "input")}
			return
		}
		for i, each := range v {
			switch text := each.(type) {
			case string:
				e.Texts = append(e.Texts, text)
			case []any:
				e.Texts = append(e.Texts, tokenText(c, text, at("input", i)))
			default:
				c.fail(invalidType(at("input", i), "one of a string or array of integers", each))
			}
		}
	default:
		c.fail(invalidType("input", "one of a string or array", v))
	}
	for i, text := range e.Texts {
		if text == "" {
			c.fail(badValue(at("input", i), "empty_string", "input cannot be an empty string."))
		}
	}
}

// tokenText writes tokens as words.
func tokenText(c *checker, tokens []any, path string) string {
	var words []string
	for i, each := range tokens {
		token, ok := each.(json.Number)
		if _, err := token.Int64(); !ok || err != nil {
			c.fail(invalidType(at(path, i), "an integer", each))
			return ""
		}
		words = append(words, token.String())
	}
	return strings.Join(words, " ")
}

// Body encodes one vector for each text.
func (e *Embeddings) Body(vectors [][]float64) []byte {
	data, size := []any{}, 0
	for i, vector := range vectors {
		var value any = vector
		if e.binary {
			raw := make([]byte, 0, 4*len(vector))
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(v)))
			}
			value = base64.StdEncoding.EncodeToString(raw)
		}
		data = append(data, members{{"object", "embedding"}, {"index", i}, {"embedding", value}})
		size += len(e.Texts[i])
	}
	n := completion.Tokens(size)
	return Encode(members{{"object", "list"}, {"data", data}, {"model", e.name}, {"usage", members{{"prompt_tokens", n}, {"total_tokens", n}}}})
}

// Images is a request for images that the rules accept.
type Images struct {
	Model         *Model
	Prompt        string
	Count         int
	Width, Height int

	size string
}

// CheckImages applies the rules of image generation. Exactly one of its results is nil.
func CheckImages(in Input) (*Images, *Error) {
	root, err := decode(in.Body)
	if err != nil {
		return nil, err
	}
	c := &checker{profile: in.Profile}
	c.known(root, "", "prompt", "model", "n", "size", "quality", "background", "moderation", "output_compression", "output_format", "partial_images", "stream", "user")
	r := &Images{Prompt: c.required(root, "", "prompt"), Count: 1, size: c.oneOf(root, "", "size", "auto", "1024x1024", "1536x1024", "1024x1536")}
	name := c.required(root, "", "model")
	c.oneOf(root, "", "quality", "auto", "low", "medium", "high")
	c.oneOf(root, "", "background", "auto", "opaque", "transparent")
	c.oneOf(root, "", "output_format", "png", "jpeg", "webp")
	if n := c.integer(root, "", "n", 1, maxImages); n != nil {
		r.Count = int(*n)
	}
	if stream, _ := c.boolean(root, "", "stream"); stream {
		c.fail(unsupported("stream", "unsupported_value", "Unsupported value: 'stream' does not support true with this model."))
	}
	if c.err != nil {
		return nil, c.err
	}
	if r.Model = in.Profile.Model(name); r.Model == nil {
		return nil, noModel(name)
	}
	if !r.Model.Draws {
		return nil, invalidValue("model", name, "gpt-image-1")
	}
	if r.size == "" || r.size == "auto" {
		r.size = "1024x1024"
	}
	width, height, _ := strings.Cut(r.size, "x")
	r.Width, _ = strconv.Atoi(width)
	r.Height, _ = strconv.Atoi(height)
	return r, nil
}

// Body encodes PNG images, which are in base64.
func (r *Images) Body(created int64, images []string) []byte {
	data := []any{}
	for _, image := range images {
		data = append(data, members{{"b64_json", image}})
	}
	input, output := completion.Tokens(len(r.Prompt)), 1056*len(images)
	return Encode(members{{"created", created}, {"background", "opaque"}, {"data", data}, {"output_format", "png"}, {"quality", "medium"}, {"size", r.size},
		{"usage", members{{"input_tokens", input}, {"input_tokens_details", members{{"image_tokens", 0}, {"text_tokens", input}}}, {"output_tokens", output}, {"total_tokens", input + output}}}})
}
