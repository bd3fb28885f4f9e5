package server

import (
	"net/http"

	"perigee/internal/server/mount"
)

// A Home answers GET / of browsers.
type Home interface {
	// IsHome reports whether a request for / is one of a browser.
	IsHome(r *http.Request) bool
	ServeHome(w http.ResponseWriter, r *http.Request) error
}

// root answers GET /: browsers get the dashboard. Programs that look whether the base URL is right
// get the name and the version, because the dashboard without a session is a 401, which they take
// for one about their key.
func (p *systemPages) root(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	if p.Home != nil && p.Home.IsHome(r) {
		return p.Home.ServeHome(w, r)
	}
	answer := struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}{Name: "perigee"}
	if p.Status != nil {
		answer.Version = p.Status().Version
	}
	w.Header().Set("Cache-Control", "no-store")
	return mount.WriteValue(w, answer)
}
