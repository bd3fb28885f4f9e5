// Package ollama is Ollama's own API, for upstreams: it encodes prompts and texts as requests, and
// decodes answers, lists and descriptions of models, and errors. No client speaks it.
//
// It does not use the network, the clock or mutable globals. Package adapt has made each prompt one
// that the server takes.
//
// The files: encode.go writes POST /api/chat and decode.go reads its answers, models.go reads lists
// and descriptions of models, embed.go has POST /api/embed, and error.go reads errors.
package ollama
