// Package adapt makes a prompt acceptable to the provider that it is sent to: legal names, thinking
// within the limits of the model, calls paired with their results, thought signatures where they
// are required. Requests of clients of another API are repaired here instead of being rejected by
// the provider.
//
// ForGemini adapts to the official API, ForAntigravity to the gateway behind Antigravity, which
// accepts less and serves Claude, too. Both walk through the prompt in the same way;
// adapter.gateway decides where the gateway needs something else. A Repair selects the changes for
// a second attempt after the provider rejected the first. ForAnthropic adapts to the Messages API:
// its models have their own rules (models.MessagesOf). ForOpenAI adapts to the servers with OpenAI's
// APIs, and ForOllama to Ollama's own API.
//
// The package is pure, never changes the prompt that it is given, and takes time linear in it. It
// reads no wire format: dialects have decoded the prompt, and the upstream encodes the result.
// Which schemas are acceptable is up to package schema.
//
// This room is pure: no network, no clock, no mutable globals. It imports only lib; dialect, store,
// route, account, langserver, mcp, upstream, daemon and cli may import it. Begin with ForGemini,
// ForAntigravity, ForAnthropic and ForOpenAI.
//
//	models       what is known about models: limits, families, thinking, successors, list prices
//	providererr  classifies the errors of Google's APIs: kind, scope, when they end
//	schema       JSON Schemas in the form that a provider accepts
package adapt
