// Package server is the HTTP server: it matches a URL to a dialect, decodes the request, asks the
// Upstream, and encodes the answer. It checks Host and Origin, keys, sizes and times, and does not
// depend on providers.
//
// The daemon builds one Server and serves it on TCP; Trusted is the same server without these
// checks, for the owner's socket.
//
// The room may import dialect and lib; mcp, observe, daemon and cli may import it. Begin with
// Server.ServeHTTP and dialect.go, which has the table of dialects and their one handler.
//
//	admin         the paths for accounts, traces, audit log, store, usage and quota
//	clientkey     keys of clients, their limits, delays for wrong keys
//	connect       the table of clients: their settings files, how they are started and asked; undo
//	fetch         downloads media that a message refers to by URL, from public addresses only
//	imagestore    generated images for dialects that cannot carry them
//	membudget     counts the memory that open calls reserve, and sets GOGC accordingly
//	mount         the interface between the server and handlers of other rooms
//	reqbody       reads bodies into pooled buffers
//	responsesapi  stored and background responses, and WebSockets of the Responses API
package server
