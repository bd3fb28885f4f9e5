// Package openai has the code that the APIs of OpenAI share, and the small APIs: embeddings, image
// generation, and the list of models. Chat Completions and Responses have packages of their own
// under it, which build on this one: errors, notes about changes, the arguments of calls, sources
// and probabilities are written in the same way in all of them. DecodeError and DecodeModels read
// the errors and lists of providers.
//
// It does not use the network, the clock or mutable globals. Callers pass times and ids. It does
// not depend on upstreams; package adapt handles the limits of model families.
package openai
