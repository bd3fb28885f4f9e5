package api

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
)

// Gemini is the official Gemini API.
var Gemini = &Provider{
	authorize: func(h http.Header, key perigee.Secret) { h.Set("X-Goog-Api-Key", key.Reveal()) },
	wire:      func(*perigee.Request) *Wire { return geminiWire },
	raw: func(base string, r *perigee.RawRequest) string {
		return geminiTarget(base, r.Model, rawGeminiMethod(r))
	},
	models:      &listing{target: geminiModels, decode: dialect.DecodeModels},
	embed:       geminiEmbedding,
	decodeError: dialect.DecodeError,
	checkAnswer: dialect.CheckAnswer,
}

var geminiWire = &Wire{
	dialect:   perigee.DialectGemini,
	snakeCase: true,
	stops:     adapt.MaxStops,
	target: func(base, model string, stream bool) string {
		return geminiTarget(base, model, generateMethod(stream))
	},
	message: func(req *perigee.Request) (message, error) {
		return geminiMessage(req, func(prompt *perigee.Prompt) message {
			pieces, buffer := dialect.EncodePieces(prompt, wire.Buffer)
			return newMessage(req, pieces, buffer)
		})
	},
	decoder: func(bool) decoder { return new(dialect.Decoder) },
	repair:  repairGemini,
	count: &counting{
		target: func(base, model string) string { return geminiTarget(base, model, "countTokens") },
		message: func(req *perigee.Request) (message, error) {
			return geminiMessage(req, func(prompt *perigee.Prompt) message {
				return message{body: [][]byte{dialect.EncodeCountRequest(prompt, req.Model)}}
			})
		},
		decode: dialect.DecodeTokenCount,
	},
}

var geminiEmbedding = &embedding{
	dialect: perigee.DialectGemini,
	target: func(base string, req *perigee.EmbedRequest) string {
		if req.Batch || req.Dialect != perigee.DialectGemini {
			return geminiTarget(base, req.Model, "batchEmbedContents")
		}
		return geminiTarget(base, req.Model, "embedContent")
	},
	own: func(req *perigee.EmbedRequest) ([][]byte, error) {
		body, err := dialect.RewriteModel(req.Body, req.Model)
		return [][]byte{body}, err
	},
	encode: func(model string, inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error) {
		return dialect.EncodeEmbed(model, inputs), nil, nil
	},
	decode: dialect.DecodeEmbeddings, tokens: dialect.EmbedTokens, estimate: dialect.EstimateEmbed,
}

// geminiTarget returns the URL of a method of a model.
func geminiTarget(base, model, method string) string {
	return base + "/v1beta/models/" + url.PathEscape(model) + ":" + method
}

// geminiModels returns the URL of a page of the list of models.
func geminiModels(base, page string) string {
	target := base + "/v1beta/models?pageSize=1000"
	if page != "" {
		target += "&pageToken=" + url.QueryEscape(page)
	}
	return target
}

// generateMethod returns the API method for an answer of a model.
func generateMethod(stream bool) string {
	if stream {
		return "streamGenerateContent?alt=sse"
	}
	return "generateContent"
}

// rawGeminiMethod returns the API method that a recorded request was sent to.
func rawGeminiMethod(r *perigee.RawRequest) string {
	switch {
	case r.Operation == perigee.OperationCount:
		return "countTokens"
	case r.Operation == perigee.OperationEmbed:
		if _, _, batch := rawjson.Find(r.Sent, "requests"); batch {
			return "batchEmbedContents"
		}
		return "embedContent"
	}
	return generateMethod(r.Stream)
}

// geminiMessage returns the client's own bytes if possible, and what encode makes of the adapted
// prompt otherwise.
func geminiMessage(req *perigee.Request, encode func(*perigee.Prompt) message) (m message, err error) {
	if isVerbatimGemini(req) {
		body, notes, err := ownBytes(req)
		return message{body: [][]byte{body}, notes: notes}, err
	}
	spec := models.Of(req.Model)
	if err := adapt.RefuseImages(req, spec.Family); err != nil {
		return m, err
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, err
	}
	prompt, undo, notes := adapt.ForGemini(prompt, spec)
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	m = encode(prompt)
	m.undo, m.notes = undo, notes
	return m, nil
}

// isVerbatimGemini reports whether the client's own bytes can be sent: they are in the Gemini
// dialect, and the model is one that the dialect was made for. Claude behind the same API has rules
// that clients of the dialect do not follow.
func isVerbatimGemini(req *perigee.Request) bool {
	return req.Verbatim(perigee.DialectGemini) && models.Of(req.Model).Family != models.Claude
}

// ownBytes returns the client's bytes with the name of the routed model, and with the thinking
// that this name asks for or that its output limit has room for. A strict request gets the error
// of the provider instead of the latter.
func ownBytes(req *perigee.Request) (body []byte, notes []perigee.Note, err error) {
	body = req.Body
	if beyond := !req.Strict && req.ThinksBeyondOutput; beyond || req.Thinking != nil {
		prompt, err := req.Prompt()
		if err != nil {
			return nil, nil, err
		}
		fitted, _, changes := adapt.ForGemini(prompt, models.Of(req.Model))
		if fitted.Generation.Thinking != nil {
			body = dialect.SetThinking(body, fitted.Generation.Thinking)
		}
		if beyond {
			notes = slices.DeleteFunc(changes, func(n perigee.Note) bool { return !strings.HasPrefix(n.Subject, "thinking ") })
		}
	}
	body = dialect.UnwrapSignatures(body)
	if req.NamesModel {
		body, err = dialect.RewriteModel(body, req.Model)
	}
	return body, notes, err
}

// repairGemini encodes a request anew that the provider refused for a reason that can be repaired.
// Requests in the Gemini dialect are adapted only here, because most of them are valid unchanged.
// ok is false if the repair would change nothing.
func repairGemini(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
	signatures, own := refusedFor(refused, "signature"), isVerbatimGemini(req)
	thinking, results := own && refusedFor(refused, "thinking"), own && refusedFor(refused, "function response")
	if !signatures && !thinking && !results {
		return m, false
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, false
	}
	var how adapt.Repair
	switch {
	case signatures:
		// Another provider made it, as after a change of model in the middle of a conversation, or
		// it was damaged on the way.
		how = adapt.RepairSignatures
	case results && !adapt.RepeatsResults(prompt.Contents):
		// the client's own calls are not changed; only copies are known not to come from the
		// client
		return m, false
	}
	before := sent.body
	if own {
		before = [][]byte{dialect.EncodeRequest(prompt)}
	}
	prompt, m.undo, m.notes = adapt.RepairForGemini(prompt, models.Of(req.Model), how)
	m.notes = slices.DeleteFunc(m.notes, func(n perigee.Note) bool { return slices.Contains(sent.notes, n) })
	if len(m.notes) == 0 || req.RefuseIfStrict(m.notes) != nil {
		return m, false // it would be refused again, or the request is strict
	}
	body := dialect.EncodeRequest(prompt)
	m.body = [][]byte{body}
	return m, !bytes.Equal(body, slices.Concat(before...))
}

// refusedFor reports whether the provider refused a request with a message that contains the word.
func refusedFor(err error, word string) bool {
	e, ok := errors.AsType[*perigee.Error](err)
	return ok && e.Class == perigee.ClassInvalid && e.Status == 400 && strings.Contains(strings.ToLower(e.Message), word)
}
