// Package langserver is the room of the Antigravity language server, a program of its own: finding
// and running it, and its protocol in both directions. mcp, upstream, daemon and cli may import it.
// Begin with supervisor.Supervisor for the process and lsclient.Client for the calls to it.
//
//	connectframe  middleware before connect-go for the framing of streams that the process uses
//	discover      finds language servers that a running IDE has started
//	extserver     the Extension Server, which the process calls for its token, settings and edits
//	lsclient      calls a language server: conversations, models, updates
//	matrixtest    tests that take every kind of language server through its life
//	probe         finds the binary, and learns which command line it accepts
//	signin        keeps the process signed in with one account of an upstream at a time
//	supervisor    starts, watches, restarts and ends the process
//	trajectory    follows a conversation and reports its steps as events; finds conversations
package langserver
