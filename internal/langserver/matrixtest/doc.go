// Package matrixtest holds the supervisor, the Extension Server and the client against every kind
// of language server that the stand-in plays. It has tests only, for Unix. No package imports this
// one.
package matrixtest
