package server

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
)

// A route is a path and its handlers.
type route struct {
	path      string // see mount.MatchPath
	access    mount.Access
	command   string // see mount.Point
	operation string // the operation of a POST, as recorded; empty if it does not call a model
	methods   map[string]func(*call) error
	any       func(*call) error // answers every method
}

// ownRoutes are the paths other than the endpoints of the dialects.
var ownRoutes = []route{
	{path: "/v1beta/models/*:*", operation: perigee.OperationGenerate, methods: methods{http.MethodPost: (*call).geminiNoMethod}},
	// Clients of other vendors send their telemetry to whatever base URL they are given.
	{path: "/api/event_logging/batch", access: mount.Public, methods: methods{http.MethodPost: (*call).ignore}},
}

type methods = map[string]func(*call) error

// ownPrefix precedes perigee's own paths, which no API of a vendor can have.
const ownPrefix = "/perigee"

// withOwnPaths adds to each of the points, which are perigee's own, its path below /perigee/v1.
// docs/http.md has those; the path below /v1 is an alias with the same handler.
func withOwnPaths(points []Mount) (list []Mount) {
	for _, p := range points {
		list = append(list, p)
		if strings.HasPrefix(p.Path, "/v1/") {
			p.Path = ownPrefix + p.Path
			list = append(list, p)
		}
	}
	return list
}

// routesOf returns everything that a server answers. The first route that matches a path counts.
func routesOf(dialects []*dialect, mounts []Mount) []route {
	var list []route
	for _, d := range dialects {
		for i := range d.endpoints {
			e := &d.endpoints[i]
			list = append(list, route{path: e.path, operation: e.operation, methods: methods{
				http.MethodPost: func(c *call) error { return e.serve(c, d) },
			}})
		}
	}
	i := slices.IndexFunc(list, func(r route) bool { return r.path == responsesPath })
	if i >= 0 {
		list[i].methods[http.MethodGet] = (*call).responsesSocket
	}
	list = append(list, ownRoutes...)
	for _, m := range mounts {
		list = append(list, mountRoute(m))
	}
	return list
}

// findRoute returns the route of a path, and the text that its wildcard matched.
func (s *Server) findRoute(path string) (*route, string) {
	for i := range s.routes {
		if rest, ok := mount.MatchPath(s.routes[i].path, path); ok {
			return &s.routes[i], rest
		}
	}
	return nil, ""
}

// handler returns the handler of a method, or nil if there is none.
func (r *route) handler(method string) func(*call) error {
	switch {
	case r.any != nil:
		return r.any
	case method == http.MethodHead && r.methods[method] == nil:
		return r.methods[http.MethodGet]
	}
	return r.methods[method]
}

// allow lists the methods of a route, for the header of that name.
func (r *route) allow() string {
	if r.any != nil {
		return "GET, POST"
	}
	return strings.Join(slices.Sorted(maps.Keys(r.methods)), ", ")
}

// ignore reads the request and answers without an effect.
func (c *call) ignore() error {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(c.w, c.r.Body, 1<<20)); err != nil {
		return reqbody.Explain(c.r.Context(), err, 1<<20, "limits.body")
	}
	c.bodyRead()
	c.writeJSON(http.StatusOK, []byte(`{}`))
	return nil
}

// unknownPath returns the error about a path that does not exist, with the nearest that does.
func (s *Server) unknownPath(method, path string) error {
	var known []string
	for _, r := range s.routes {
		if !strings.Contains(r.path, "*") {
			known = append(known, r.path)
		}
	}
	return mount.UnknownPath(method, path, known, func(path string) bool {
		route, _ := s.findRoute(path)
		return route != nil && route.methods[method] != nil
	})
}
