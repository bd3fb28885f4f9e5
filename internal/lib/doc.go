// Package lib is the room of packages that could serve any program: they know nothing of perigee
// but the root package, and import no other room. Every room may import them. Begin with rawjson
// and wire, which carry the bytes of every call.
//
//	atomicfile   writes small files whole or not at all, locks them, and reads the free disk space
//	connlimit    limits connections and request heads of an HTTP server, for draining, too
//	edit         changes single values in settings files, and keeps every other byte
//	filetool     reads, writes and lists files within given roots, through links and races
//	heapsample   sets how often allocations are sampled for heap profiles
//	lazyregexp   regular expressions that are compiled at their first use
//	lru          a map that evicts its least recently used entries
//	match        patterns and similarity of names, for routes, allow-lists and hints
//	netguard     classifies addresses (loopback, public) and matches host names
//	peeruser     the user at the other end of a connection within the machine
//	procgroup    starts commands in process groups of their own and as other users, and ends the groups
//	rawjson      validates, counts, reads, edits and writes JSON without intermediate Go values
//	redact       replaces secrets in texts: known ones, and common forms of credentials
//	sse          event streams, byte-exact
//	steadyclock  a clock of elapsed time, which never goes back
//	terminal     tables, CSV, log lines and progress that fit the terminal; quoting for shells
//	vscdb        reads single values of state.vscdb, the database of VS Code and its descendants
//	wire         HTTP connections to providers: health checks, resending, a watchdog, relayed streams
package lib
