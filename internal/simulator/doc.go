// Package simulator is a strict, deterministic stand-in for the providers: Google's sign-in, its
// private gateway (v1internal), its official API (v1beta) and Vertex AI, the Messages API of
// Anthropic, the API of Ollama, and the APIs of OpenAI in the way of one of several servers
// ([Profiles]), in one http.Handler. It refuses what the provider refuses, in the same order and
// with the same words; it counts quota and lets tokens expire; and it fails on demand.
//
// It is not a model. Answers follow from the request alone: from directives in the last user text
// such as [[text: hello]] or [[call: read_file {"path":"a"}]] (see [Usage]), or from a few fixed
// habits when there are none. Same seed and same request give the same bytes, but for times and
// counts of cached tokens.
//
// It is called by the command "perigee simulate", by "perigee serve" when no upstream is
// configured, and by the tests of every package that talks to the provider. Which request is legal
// is decided in the package of each API; this package adds all that depends on the caller and the
// time: accounts, tokens, projects, versions, quota and faults. An API of another provider is a wire
// (wires.go): it turns its request into a conversation, and the reply of the model into its form.
//
// The packages of this room share no code with the rest of perigee: they implement the facts about
// the providers, not the code of perigee. daemon, cli and tests may import them. Begin with
// Server.ServeHTTP.
//
//	anthropic   the rules, the prompt cache and the answers of Messages
//	completion  the answer of the model, before an API encodes it
//	ollama      the local models, the rules and the answers of Ollama
//	openai      the rules and answers of Chat Completions and Responses, for each server
//	rules       which requests Google accepts
//	standin     a program that behaves like the language server
//
// # Directives
//
// One per line or inline in the last user text; what is in double brackets and not listed here
// stays text.
//
//	[[text: hello]]                     answer with this; several are several parts
//	[[think: plan]]                     think this first, when the request asks for thoughts
//	[[call: read_file {"path":"a"}]]    call a function; several are parallel; arguments may be left out
//	[[then]]                            what follows is for the next reply of the turn, after the tool answered
//	[[image]] [[ground: q]] [[code: c]] a picture, an answer with web sources, code with its result
//	[[tokens: 200]] [[echo]]            a text of so many words; the user's own text (or: system, tools)
//	[[finish: MAX_TOKENS]] [[block: SAFETY]]
//	[[chunks: 20]] [[pace: 50ms]] [[usage: last|every|late]]
//
// # Faults
//
// A fault has a condition and an effect, in a script ([LoadScript]) or over POST /simulator/faults:
// see [Fault], [When] and [FaultNames]. Each strikes at its place in the order of checks, so that a
// quota error meets only requests that would have been answered.
package simulator
