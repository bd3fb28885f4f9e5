// Package anthropic implements the Anthropic Messages dialect: it decodes POST /v1/messages and
// /v1/messages/count_tokens, and encodes events as messages, streamed or whole. Only the HTTP
// server uses it. It does not use the network, the clock or mutable globals.
//
// Nothing that the provider does not support is dropped silently: there is a perigee.Note for it,
// and rules.tsv describes the handling of every documented field.
//
// The files: request.go reads the envelope, message.go and block.go the conversation, result.go the
// results of tools, history.go the actions of Anthropic's own servers, tool.go and client_tool.go
// the tools; answer.go turns events into blocks, blocks.go writes them, for stream.go and
// collect.go; signature.go passes the provider's signatures through clients that have no field for
// them.
package anthropic
