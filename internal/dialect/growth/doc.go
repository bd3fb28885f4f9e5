// Package growth compares the cost of requests with long lists and with lists four times as long.
// It has only tests: they take every form of request that the examples of the repository have,
// through the HTTP server, the decoders, adaptation for both providers and the encoder. No package
// imports this one.
package growth
