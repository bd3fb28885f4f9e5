package server

import (
	"net/http"

	"perigee"
	"perigee/internal/dialect/anthropic"
)

const (
	messagesPath = "/v1/messages"
	countPath    = "/v1/messages/count_tokens"
)

// anthropicDialect is Anthropic's Messages API.
var anthropicDialect = dialect{
	name: perigee.DialectAnthropic,
	owns: func(path string, header http.Header) bool {
		return header.Get("Anthropic-Version") != "" || path == messagesPath || path == countPath
	},
	requestID:    "Request-Id",
	encodeError:  func(c *call, status int, err *perigee.Error) []byte { return anthropic.EncodeError(status, err, c.id) },
	ignoredQuery: []string{"beta"}, // clients of beta interfaces set it in addition to the body, and Anthropic gets it
	endpoints: []endpoint{
		{path: messagesPath, operation: perigee.OperationGenerate, decode: decodeMessages},
		{path: countPath, operation: perigee.OperationCount, decode: decodeMessagesCount},
	},
}

func decodeMessages(c *call, origin perigee.Origin) (*exchange, error) {
	req, answer, err := anthropic.DecodeRequest(origin)
	if err != nil {
		return nil, err
	}
	if c.opts.Images != nil {
		answer.SaveImage = c.imageKeeper().Keep
	}
	return &exchange{
		request: req,
		stream:  func(*perigee.Request) streamEncoder { return anthropic.NewStream(answer) },
		collect: func(*perigee.Request) collector { return anthropic.NewCollector(answer) },
	}, nil
}

// decodeMessagesCount has tokens estimated where the upstream cannot count them: agents ask often,
// and only to draw a gauge.
func decodeMessagesCount(_ *call, origin perigee.Origin) (*exchange, error) {
	req, err := anthropic.DecodeCount(origin)
	return &exchange{request: req, count: anthropic.EncodeTokenCount, estimateCount: true}, err
}
