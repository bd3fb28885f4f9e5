package api

import (
	"perigee"
	dialect "perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// openAIEmbedding is the method for embeddings of the servers with OpenAI's APIs.
var openAIEmbedding = &embedding{
	dialect: perigee.DialectOpenAIChat,
	raw:     true,
	target:  func(base string, _ *perigee.EmbedRequest) string { return base + "/embeddings" },
	own:     func(req *perigee.EmbedRequest) ([][]byte, error) { return named(req.Body, req.Model), nil },
	encode:  dialect.EncodeEmbeddingsRequest,
	decode:  dialect.DecodeVectors, tokens: dialect.EmbeddingTokens, estimate: dialect.EstimateEmbeddings,
}

// named returns a body, in pieces, with the name of the routed model in place of the client's.
func named(body []byte, model string) [][]byte {
	e := memberEditor{body: body}
	e.object(rawjson.NewCursor(body), []*change{{name: "model", value: rawjson.AppendString(nil, model), quiet: true}})
	return rawjson.Pieces(body, e.edits...)
}

// openAIImages is the method for images of the servers with OpenAI's APIs.
var openAIImages = &Wire{
	dialect: perigee.DialectOpenAIImages,
	raw:     true,
	target:  func(base, _ string, _ bool) string { return base + "/images/generations" },
	message: func(req *perigee.Request) (message, error) {
		return message{body: named(req.Body, req.Model)}, nil
	},
	decoder: func(bool) decoder { return new(dialect.ImagesDecoder) },
}
