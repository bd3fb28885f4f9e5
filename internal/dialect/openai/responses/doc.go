// Package responses implements OpenAI's Responses API: it decodes POST /v1/responses and messages
// of its WebSocket, encodes events as events of the API or as a whole response, and converts
// responses to their stored form, so that clients can continue them. For providers of the API it
// encodes prompts as requests, and decodes their answers into events.
//
// It is pure: no network, no clock, no globals that change. Callers pass times, ids and stored
// responses. Code that it shares with the other APIs of the vendor is in package openai.
//
// The files: request.go reads the envelope, options.go and tools.go its members; items.go and
// parts.go read the conversation, package dialect converts it to contents, recall.go reads stored
// items; stream.go writes an answer as events, in frames.go's frames, with the items of output.go,
// reasoning.go and search.go, and object.go the response around them; carrier.go passes the
// provider's signatures through clients; stored.go is for stored responses; message.go is for
// sockets. For providers, encode_request.go and encode_input.go write requests, and decode.go and
// decode_item.go read answers.
package responses
