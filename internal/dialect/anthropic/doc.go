// Package anthropic implements the Anthropic Messages dialect, in both directions. For clients it
// decodes POST /v1/messages and /v1/messages/count_tokens, and encodes events as messages, streamed
// or whole. For providers it encodes prompts as these requests, and decodes messages, errors and
// lists of models. It does not use the network, the clock or mutable globals.
//
// Nothing that the provider does not support is dropped silently: there is a perigee.Note for it,
// and rules.tsv describes the handling of every documented field.
//
// The files: request.go reads the envelope, message.go and block.go the conversation, result.go the
// results of tools, history.go the actions of Anthropic's own servers, tool.go and client_tool.go
// the tools; answer.go turns events into blocks, blocks.go writes them, for stream.go and
// collect.go; signature.go passes the provider's signatures through clients that have no field for
// them. encode_request.go writes requests to providers, and decode.go, decode_search.go,
// decode_error.go and decode_models.go read their answers.
package anthropic
