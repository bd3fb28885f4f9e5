// Package matrixtest tests the supervisor, the Extension Server and the client with every kind of
// language server that the stand-in can simulate. It has tests only, for Unix. No package imports
// it.
package matrixtest
