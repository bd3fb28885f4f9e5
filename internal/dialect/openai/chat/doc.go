// Package chat is OpenAI's Chat Completions API: the bytes of POST /v1/chat/completions to
// perigee's words, and events back to chunks or to a whole completion. The HTTP edge is its only
// caller.
//
// It is pure: no network, no clock, no globals that change. It knows no upstream and no family of
// models: what only some of them refuse is mended where they are known. What it shares with the
// other APIs of the vendor is in package openai.
//
// The files: request.go reads the envelope, options.go, reasoning.go and tools.go what belongs to
// it; messages.go and parts.go read the conversation, talk.go gives it the form that the models
// know; choice.go follows one answer while it comes, stream.go and collect.go write it with what
// answer.go has for both.
package chat
