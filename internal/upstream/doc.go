// Package upstream is the room of everything that answers a request. Each package has a type with
// the method Stream of perigee.Upstream. Only the daemon and one reader of traces import them.
// api, antigravity and conversation do not import each other; headless and ide build on them.
// Begin with api, which is the shortest.
//
//	antigravity   the Antigravity gateway: leased accounts, envelope, endpoints, repaired requests
//	api           providers with API keys, each a value: failover between keys, first-byte and idle timeouts
//	conversation  a conversation with the agent of a language server, or requests carried by one
//	headless      an upstream with a language server of its own: process, sign-in, interception
//	ide           an upstream that asks the windows of an open editor
package upstream
