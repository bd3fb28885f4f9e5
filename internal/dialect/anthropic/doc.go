// Package anthropic is the Anthropic Messages dialect: the bytes of POST /v1/messages and
// /v1/messages/count_tokens to perigee's words, and events back to messages, streamed or whole. The
// HTTP edge is its only caller; no upstream speaks it. It is pure: no network, no clock, no globals
// that change.
//
// What the provider cannot be told is never dropped in silence: each such thing is a perigee.Note,
// and rules.tsv says of every documented field what becomes of it.
//
// The files: request.go reads the envelope, message.go and block.go the conversation, result.go
// what tools answered, history.go what only Anthropic's own servers did, tool.go and client_tool.go
// the tools; answer.go turns events into blocks, blocks.go writes them, for stream.go and
// collect.go; signature.go is how the provider's signatures travel through clients that have no
// room for them.
package anthropic
