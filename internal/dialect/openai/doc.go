// Package openai is the OpenAI dialect: Chat Completions, Responses, embeddings and the drawing of pictures, from bytes
// to perigee's words and back. For each API there is a decoder of requests, an encoder of streams, a collector of whole
// answers, and a table that says what becomes of each field. The HTTP edge calls them; nobody else does.
//
// It is pure: no network, no clock, no globals that change. Times and ids come in from outside. It knows no upstream
// and no family of models: what only some of them refuse is mended where they are known.
package openai
