package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"perigee"
)

// An access says who may use a route. The zero value is nobody that has not shown a key, so a route that
// forgets to say is closed.
type access uint8

const (
	client access = iota // a configured key, where there are any
	public               // everybody who can connect
	owner                // who has the admin token, or comes through the owner's socket
)

// A route is a path and what can be done there.
type route struct {
	path    string // a path that ends in /* takes everything below it, and one that ends in /*: what names a method of it, too
	access  access
	asks    string // what a POST here asks of a model, as the record calls it; empty: nothing
	methods map[string]func(*call) error
}

// routes is everything that the server answers. What is not here does not exist.
var routes = []route{
	{path: "/", access: public, methods: methods{http.MethodGet: (*call).root}},
	{path: "/health", access: public, methods: methods{http.MethodGet: (*call).health}},
	{path: "/ready", access: public, methods: methods{http.MethodGet: (*call).ready}},
	{path: "/v1beta/models", methods: methods{http.MethodGet: (*call).geminiModels}},
	{path: "/v1beta/models/*:", asks: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).geminiCall}},
	{path: "/v1beta/models/*", methods: methods{http.MethodGet: (*call).geminiModel, http.MethodPost: (*call).geminiCall}},
	{path: "/v1/chat/completions", asks: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).chatCompletions}},
	{path: "/v1/embeddings", asks: perigee.OperationEmbed, methods: methods{http.MethodPost: (*call).embeddings}},
	{path: "/v1/images/generations", asks: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).imageGenerations}},
	{path: "/v1/images/*", methods: methods{http.MethodGet: (*call).image}},
	{path: "/v1/messages", asks: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).anthropicMessages}},
	{path: "/v1/messages/count_tokens", asks: perigee.OperationCount, methods: methods{http.MethodPost: (*call).anthropicCount}},
	{path: "/v1/responses", asks: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).responses, http.MethodGet: (*call).responsesSocket}},
	{path: "/v1/responses/*", methods: methods{http.MethodGet: (*call).responsesRead, http.MethodPost: (*call).responsesAct, http.MethodDelete: (*call).responsesDelete}},
	{path: "/v1/models", methods: methods{http.MethodGet: (*call).vendorModels}},
	{path: "/v1/models/*", methods: methods{http.MethodGet: (*call).vendorModel}},
	{path: "/v1/usage", methods: methods{http.MethodGet: (*call).usage}},
	{path: "/v1/quota", methods: methods{http.MethodGet: (*call).quota}},
	{path: "/v1/accounts", access: owner, methods: methods{http.MethodGet: (*call).accounts, http.MethodPost: (*call).importAccounts, http.MethodPatch: (*call).changeAccount, http.MethodDelete: (*call).removeAccount}},
	{path: "/v1/accounts/use", access: owner, methods: methods{http.MethodPost: (*call).useAccount}},
	{path: "/v1/accounts/status", access: owner, methods: methods{http.MethodGet: (*call).accountStatus}},
	{path: "/v1/traces", access: owner, methods: methods{http.MethodGet: (*call).traces}},
	{path: "/v1/traces/*", access: owner, methods: methods{http.MethodGet: (*call).trace}},
	{path: "/v1/store", access: owner, methods: methods{http.MethodGet: (*call).storeReport}},
	{path: "/v1/store/compact", access: owner, methods: methods{http.MethodPost: (*call).storeCompact}},
	{path: "/v1/audit", access: owner, methods: methods{http.MethodGet: (*call).auditEntries, http.MethodPost: (*call).recordAct}},
	{path: "/v1/status", access: owner, methods: methods{http.MethodGet: (*call).status}},
	// Clients of other vendors send their telemetry to whatever base URL they are given.
	{path: "/api/event_logging/batch", access: public, methods: methods{http.MethodPost: (*call).ignore}},
}

type methods = map[string]func(*call) error

// findRoute returns the route of a path, and what stood in place of its wildcard.
func findRoute(path string) (*route, string) {
	for i := range routes {
		r := &routes[i]
		prefix, wild := strings.CutSuffix(strings.TrimSuffix(r.path, ":"), "*")
		rest, below := strings.CutPrefix(path, prefix)
		switch {
		case !wild && path == r.path:
			return r, ""
		case wild && below && rest != "" && (!strings.HasSuffix(r.path, ":") || strings.Contains(rest, ":")):
			return r, rest
		}
	}
	return nil, ""
}

// allow lists the methods of a route, for the header of that name.
func (r *route) allow() string {
	var list []string
	for method := range r.methods {
		list = append(list, method)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// dialectOf says in whose shape a path answers when something is wrong with the request itself.
func dialectOf(path string, header http.Header) perigee.Dialect {
	switch {
	case strings.HasPrefix(path, "/v1beta/"):
		return perigee.DialectGemini
	case path == "/v1/responses", strings.HasPrefix(path, "/v1/responses/"):
		return perigee.DialectOpenAIResponses
	case header.Get("Anthropic-Version") != "", path == "/v1/messages", path == "/v1/messages/count_tokens":
		return perigee.DialectAnthropic
	}
	return perigee.DialectOpenAIChat
}
