// Package openai is what the APIs of OpenAI's dialect share, and those of them that are small:
// embeddings, the drawing of pictures, and the list of models. Chat Completions and Responses have
// packages of their own under it, which build on this one: errors, notes about what was changed,
// the arguments of calls, sources and probabilities are written in the same way in all of them.
// Only package server calls it.
//
// It is pure: no network, no clock, no globals that change. Times and ids come in from outside. It
// knows no upstream and no family of models: what only some of them refuse is mended where they are
// known.
package openai
