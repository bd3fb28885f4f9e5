package openai

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// DecodeEmbeddings reads the body of POST /v1/embeddings. It reads no more than a provider with this
// API needs, which gets the body unchanged and checks the rest itself. packed is true if the client
// wants the vectors as base64 instead of numbers.
func DecodeEmbeddings(origin perigee.Origin) (req *perigee.EmbedRequest, packed bool, err error) {
	index, err := rawjson.Open(origin.Body, nil)
	if err != nil {
		return nil, false, InvalidBody(err)
	}
	c, err := openObject(index.Cursor())
	if err != nil {
		return nil, false, err
	}
	if err := checkMedia(index); err != nil {
		return nil, false, err
	}
	origin.Dialect = perigee.DialectOpenAIChat
	req = &perigee.EmbedRequest{Origin: origin, Batch: true}
	req.Decode = func() ([]perigee.EmbedInput, []perigee.Note, error) { return decodeInputs(origin.Body) }
	for key := range c.Object() {
		switch kind := c.Kind(); {
		case kind == rawjson.Null:
		case string(key) == "model":
			req.Model = strings.TrimPrefix(c.String(), "models/")
		case string(key) == "encoding_format" && kind == rawjson.String:
			packed = c.String() == "base64"
		case string(key) == "input" && kind == rawjson.Array:
			for range c.Array() {
				if c.Kind() != rawjson.Number { // which are the tokens of one input
					req.Count++
				}
			}
		}
	}
	if c.Err() != nil {
		return nil, false, InvalidBody(c.Err())
	}
	return req, packed, nil
}

// checkMedia refuses a body with media that are files of the provider's machine: some servers take more
// than the API has.
func checkMedia(body *rawjson.Document) error {
	if !dialect.MayHaveMedia(body) {
		return nil
	}
	if path, err := dialect.CheckBody(body.Cursor()); err != nil {
		return Wrong(path, "%v", err)
	}
	return nil
}

// decodeInputs reads the inputs of a body, for a provider with another API. The notes are on members
// that it has no counterpart for.
func decodeInputs(body []byte) ([]perigee.EmbedInput, []perigee.Note, error) {
	c := rawjson.NewCursor(body)
	var notes perigee.Notes
	var inputs []string
	var dimensions int64
	var problem *perigee.Error
	for key := range c.Object() {
		if c.Kind() == rawjson.Null {
			continue
		}
		switch string(key) {
		case "input":
			var trouble *perigee.Error
			if inputs, trouble = embedInputs(c); problem == nil {
				problem = trouble
			}
		case "dimensions":
			if dimensions = c.Int64(); dimensions < 1 && problem == nil {
				problem = Wrong("dimensions", "want at least 1, found %d", dimensions)
			}
		case "encoding_format":
			if format := c.String(); format != "base64" && format != "float" && problem == nil {
				problem = Wrong("encoding_format", "want float or base64, found %q", Brief(format))
			}
		case "model", "user": // read before; for the vendor's records
		default:
			notes.Unknown("", key)
		}
	}
	switch {
	case c.Err() != nil:
		return nil, nil, InvalidBody(c.Err())
	case problem != nil:
		return nil, nil, problem
	case len(inputs) == 0:
		return nil, nil, Wrong("input", "want a text or a list of texts")
	}
	list := make([]perigee.EmbedInput, 0, len(inputs))
	for _, text := range inputs {
		content := perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain(text)}}}
		list = append(list, perigee.EmbedInput{Content: content, Dimensions: dimensions})
	}
	return list, notes.List(), nil
}

// maxInputs is the maximum number of texts in one request.
const maxInputs = 2048

// embedInputs reads one text or several, and refuses too many while it reads, so that memory does
// not follow their number. Inputs that are tokens of another vendor's models are refused.
func embedInputs(c *rawjson.Cursor) ([]string, *perigee.Error) {
	if c.Kind() == rawjson.String {
		text := c.String()
		if text == "" {
			return nil, emptyInput("input")
		}
		return []string{text}, nil
	}
	var texts []string
	count := 0
	for i := range c.Array() {
		if count++; count > maxInputs {
			continue // only counted, for the message
		}
		if kind := c.Kind(); kind == rawjson.Number || kind == rawjson.Array {
			return nil, Wrong("input", "arrays of tokens are not supported").WithHint("send the text itself")
		}
		text := c.String()
		if text == "" && c.Err() == nil {
			return nil, emptyInput(fmt.Sprintf("input[%d]", i))
		}
		texts = append(texts, text)
	}
	if count > maxInputs {
		return nil, refusedInput("input", "array_above_max_length",
			fmt.Sprintf("array too long. Expected an array with maximum length %d, but got an array with length %d instead.",
				maxInputs, count)).
			WithHint("split it into several requests")
	}
	if count == 0 && c.Err() == nil {
		return nil, refusedInput("input", "empty_array",
			"empty array. Expected an array with minimum length 1, but got an empty array instead.").
			WithHint("send at least one text")
	}
	return texts, nil
}

func emptyInput(param string) *perigee.Error {
	return refusedInput(param, "empty_string",
		"empty string. Expected a string with minimum length 1, but got an empty string instead.").
		WithHint("leave empty texts out")
}

// refusedInput returns an error with the message of the official API, which some clients compare.
func refusedInput(param, code, problem string) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: "Invalid '" + param + "': " + problem,
		Cause: &perigee.Fault{Param: param, Code: code}}
}

// EncodeEmbeddings writes the answer of POST /v1/embeddings, with the vectors as base64 of
// little-endian 32-bit numbers when packed is set. A provider's own answer passes unchanged.
func EncodeEmbeddings(e *perigee.Embeddings, packed bool) []byte {
	if e.Raw != nil {
		return e.Raw
	}
	w := rawjson.Writer{Buf: make([]byte, 0, embeddingsSize(e, packed))}
	w.Object().Members(`"object":"list"`).Key("data").Array()
	var raw []byte
	for i, vector := range e.Vectors {
		w.Object().Members(`"object":"embedding"`).Key("index").Int(int64(i)).Key("embedding")
		if packed {
			raw = raw[:0]
			for _, v := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			w.Lit(`"`)
			w.Buf = base64.StdEncoding.AppendEncode(w.Buf, raw)
			w.Lit(`"`)
		} else {
			w.Array()
			for _, v := range vector {
				w.Float(float64(v), 32)
			}
			w.EndArray()
		}
		w.EndObject()
	}
	w.EndArray().Key("model").String(e.Model).Key("usage").Object()
	w.Key("prompt_tokens").Int(e.Usage.Input).Key("total_tokens").Int(e.Usage.Total())
	return w.EndObject().EndObject().Buf
}

// embeddingsSize returns the approximate size of the answer: a number has up to nine digits, and
// four bytes are less than six characters of base64.
func embeddingsSize(e *perigee.Embeddings, packed bool) int {
	size, number := 256+len(e.Model), 13
	if packed {
		number = 6
	}
	for _, vector := range e.Vectors {
		size += 64 + len(vector)*number
	}
	return size
}
