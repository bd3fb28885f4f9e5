// Package chat implements OpenAI's Chat Completions API. For clients, it decodes POST
// /v1/chat/completions, and encodes events as chunks or as a whole completion. For providers,
// Decoder turns their chunks and completions into events.
//
// It does not use the network, the clock or mutable globals. It does not depend on upstreams;
// package adapt handles the limits of model families. Code that it shares with the other APIs of
// the vendor is in package openai.
//
// The files: request.go reads the envelope, options.go, reasoning.go and tools.go its members;
// messages.go and parts.go read the conversation, conversation.go converts it to contents;
// choice.go follows one answer, stream.go and collect.go write it with the shared code of
// answer.go. decode.go reads the answers of providers.
package chat
