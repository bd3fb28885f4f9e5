// Package growth compares what requests cost whose lists are long and four times as long. It has
// tests only: they take every form of request that the examples of the repository have, through the
// HTTP server, the decoders, adaptation for both providers and the encoder. No package imports this
// one.
package growth
