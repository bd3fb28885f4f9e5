// Package ollama has the local models, the rules and the answers of Ollama's own API (/api/chat and
// the like), without a server. It refuses with the messages of the program: newer versions run a
// model with one of two runners, which differ in the message about a prompt that is too long and in
// the place of tool calls. A prompt that is too long is cut silently unless the request has
// truncate: false.
package ollama
