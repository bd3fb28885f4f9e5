package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/server/mount"
)

// geminiDialect is the provider's own API. Its requests reach a Gemini upstream verbatim.
var geminiDialect = dialect{
	name:        perigee.DialectGemini,
	owns:        func(path string, _ http.Header) bool { return strings.HasPrefix(path, "/v1beta/") },
	encodeError: encodeGeminiError,
	passThrough: true,
	endpoints: []endpoint{
		{path: "/v1beta/models/*:generateContent", operation: perigee.OperationGenerate, pathModel: gemini.ModelID,
			decode: decodeGenerate},
		{path: "/v1beta/models/*" + streamMethod, operation: perigee.OperationGenerate, pathModel: gemini.ModelID,
			decode: decodeGenerate},
		{path: "/v1beta/models/*:countTokens", operation: perigee.OperationCount, pathModel: gemini.ModelID, decode: decodeGeminiCount},
		{path: "/v1beta/models/*:embedContent", operation: perigee.OperationEmbed, pathModel: gemini.ModelID,
			decode: decodeGeminiEmbed},
		{path: "/v1beta/models/*:batchEmbedContents", operation: perigee.OperationEmbed, pathModel: gemini.ModelID,
			decode: decodeGeminiEmbed},
	},
}

const streamMethod = ":streamGenerateContent"

// encodeGeminiError puts an error into an array where the answer would have been one.
func encodeGeminiError(c *call, status int, err *perigee.Error) []byte {
	body := gemini.EncodeError(status, err)
	if strings.HasPrefix(c.path, "/v1beta/") && strings.HasSuffix(c.path, streamMethod) && !wantsEvents(c.r.URL) {
		return slices.Concat([]byte("["), body, []byte("]"))
	}
	return body
}

// wantsEvents reports whether a client wants a stream of events, and not one JSON array.
func wantsEvents(u *url.URL) bool {
	query := u.Query()
	return query.Get("alt") == "sse" || query.Get("$alt") == "sse"
}

func decodeGenerate(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := gemini.DecodeRequest(origin, c.wildcard, strings.HasSuffix(c.path, streamMethod))
	return &exchange{
		request: req,
		stream:  func(*perigee.Request) streamEncoder { return &gemini.Stream{SSE: wantsEvents(c.r.URL)} },
		collect: func(*perigee.Request) collector { return &gemini.Collector{} },
	}, err
}

func decodeGeminiCount(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := gemini.DecodeRequest(origin, c.wildcard, false)
	return &exchange{request: req, count: gemini.EncodeTokenCount}, err
}

func decodeGeminiEmbed(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := gemini.DecodeEmbed(origin, c.wildcard, strings.HasSuffix(c.path, ":batchEmbedContents"))
	return &exchange{embed: req, vectors: func(v *perigee.Embeddings) []byte { return gemini.EncodeEmbeddings(v, req.Batch) }}, err
}

// geminiNoMethod answers POST /v1beta/models/{model}:{method} with a method that models do not
// have.
func (c *call) geminiNoMethod() error {
	method := c.wildcard[strings.LastIndexByte(c.wildcard, ':')+1:]
	return perigee.Errorf(perigee.ClassNotFound, "no method %q for models", mount.Shorten(method)).
		WithHint("use generateContent, streamGenerateContent, countTokens, embedContent or batchEmbedContents")
}
