package server

import (
	"encoding/json"
	"net/http"

	"perigee"
	"perigee/internal/server/mount"
)

// systemPages are the paths about the server and its models, with the services of Options behind
// them.
type systemPages struct{ *Options }

// Points returns the paths.
func (p *systemPages) Points() []mount.Point {
	return []mount.Point{
		mount.Methods{"GET": p.root}.At("/", mount.Public),
		mount.Methods{"GET": p.health}.At("/health", mount.Public),
		mount.Methods{"GET": p.ready}.At("/ready", mount.Public),
		mount.Methods{"GET": noMetadata}.At("/.well-known/*", mount.Public),
		mount.Methods{"GET": p.vendorModels}.At("/v1/models", mount.Client),
		mount.Methods{"GET": p.vendorModel}.At("/v1/models/*", mount.Client),
		mount.Methods{"GET": p.geminiModels}.At("/v1beta/models", mount.Client),
		mount.Methods{"GET": p.geminiModel, "POST": noMethod}.At("/v1beta/models/*", mount.Client),
	}
}

// noMetadata answers 404: MCP clients without a key look for an OAuth server, and accept only 404
// as the answer that there is none.
func noMetadata(_ http.ResponseWriter, r *http.Request) error {
	return perigee.Errorf(perigee.ClassNotFound, "no such path: %s", mount.Shorten(r.URL.Path)).WithHint("perigee takes keys, and no OAuth tokens")
}

// health answers as long as the process can, with the states of language servers, which may be
// failed: the gateway works without.
func (p *systemPages) health(w http.ResponseWriter, _ *http.Request) error {
	type state struct {
		Upstream string `json:"upstream"`
		State    string `json:"state"`
	}
	answer := struct {
		Status     string  `json:"status"`
		Langserver []state `json:"langserver,omitempty"`
	}{Status: "ok"}
	if p.Langservers != nil {
		for _, row := range p.Langservers() {
			answer.Langserver = append(answer.Langserver, state{row.Upstream, row.State})
		}
	}
	return mount.WriteValue(w, answer)
}

// An Unready is one reason why calls cannot be answered.
type Unready struct {
	Reason string // public: GET /ready needs no key
	Detail string // for the owner, with names; empty if there is none
}

// ready answers GET /ready: 200 while calls can be answered, else 503 with the reasons.
func (p *systemPages) ready(w http.ResponseWriter, r *http.Request) error {
	answer := struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons,omitempty"`
	}{Status: "ready"}
	var reasons []Unready
	if p.Ready != nil {
		reasons = p.Ready()
	}
	for _, reason := range reasons {
		if mount.CallOf(r).Trusted && reason.Detail != "" {
			reason.Reason += ": " + reason.Detail
		}
		answer.Reasons = append(answer.Reasons, reason.Reason)
	}
	status := http.StatusOK
	if len(reasons) > 0 {
		answer.Status, status = "unready", http.StatusServiceUnavailable
		w.Header().Set("X-Perigee-Class", string(perigee.ClassUnavailable))
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	mount.WriteJSON(w, status, raw)
	return nil
}

// isProbe reports whether a path is one that load balancers and monitoring ask again and again.
func isProbe(path string) bool { return path == "/health" || path == "/ready" || path == "/metrics" }
