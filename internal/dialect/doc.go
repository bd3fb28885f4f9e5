// Package dialect has the code that the dialects of clients share: data URLs and media types, the
// sources of an answer, the layout of messages as contents, and the sizes of encoded prompts. The
// dialects are the packages below: each decodes the requests of one API into a perigee.Prompt and
// encodes events as its answers.
//
// This room is pure, and no dialect imports another one. server, upstream and observe may import
// it. Begin with openai/chat: request.go on the way in, stream.go on the way out.
//
//	anthropic         the Messages API
//	gemini            the Gemini API, in both directions: upstreams speak it, too
//	growth            tests that no form of request costs more than its length
//	ollama            Ollama's own API, which upstreams speak
//	openai            what the two OpenAI APIs share; embeddings, images, lists of models
//	openai/chat       Chat Completions
//	openai/responses  the Responses API, in both directions
//	roundtrip         tests that decode and encode the examples of all dialects
package dialect
