// Package route chooses the upstream for a call: it resolves the model that a client names to an
// ordered list of upstreams, and fails over to the next one as long as nothing has been answered
// yet. A Router is an Upstream itself.
//
// It changes the model of a request, and the thinking where the name of the model asks for it. It
// depends only on the names of upstreams and on the interfaces that they implement.
//
// The packages of this room are upstreams that wrap upstreams; a call passes through record, route,
// hold and thoughtsig, in this order. mcp, upstream, observe and daemon may import them. Begin with
// Router.Stream.
//
//	hold        holds back events until it is certain that the client gets them; stop sequences
//	record      observes calls and writes them in batches
//	thoughtsig  stores thought signatures and restores those that a client has lost
package route
