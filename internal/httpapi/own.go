package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"perigee"
	"perigee/internal/names"
)

// health answers as long as the process can.
func (c *call) health() error {
	c.writeJSON(http.StatusOK, []byte(`{"status":"ok"}`))
	return nil
}

// status answers GET /v1/status: what the daemon runs with.
func (c *call) status() error {
	if c.opts.Status == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "there is no daemon here")
	}
	return c.writeValue(c.opts.Status())
}

// ignore takes what a client sends and does nothing with it.
func (c *call) ignore() error {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(c.w, c.r.Body, 1<<20)); err != nil {
		return c.bodyError(err, 1<<20, "limits.body")
	}
	c.settled()
	c.writeJSON(http.StatusOK, []byte(`{}`))
	return nil
}

// usage answers GET /v1/usage?by=&since=&until=.
func (c *call) usage() error {
	if c.opts.Usage == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "calls are not recorded here")
	}
	query := c.r.URL.Query()
	if err := knownParameters(query, "by", "since", "until"); err != nil {
		return err
	}
	q := perigee.UsageQuery{By: query.Get("by")}
	if c.key != nil {
		q.Key = c.key.Name // what others spend is not its business
	}
	var err error
	if q.Since, err = timeParameter(query, "since"); err != nil {
		return err
	}
	if q.Until, err = timeParameter(query, "until"); err != nil {
		return err
	}
	rows, err := c.opts.Usage.Usage(c.r.Context(), q)
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []perigee.UsageRow{}
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, raw)
	return nil
}

// timeParameter reads a time; without the parameter it is zero.
func timeParameter(query url.Values, name string) (t time.Time, err error) {
	text := query.Get(name)
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil {
		return t, perigee.Errorf(perigee.ClassInvalid, "%s %q is not a time", name, shorten(text)).WithNext("write it as 2026-01-31T00:00:00Z")
	}
	return t, nil
}

// boolParameter reads a truth value; without the parameter it is false.
func boolParameter(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, perigee.Errorf(perigee.ClassInvalid, "%s is %q", name, shorten(text)).WithNext("write %[1]s=true or %[1]s=false", name)
	}
	return on, nil
}

// models lists what the presented key may ask.
func (c *call) models() ([]perigee.Model, error) {
	lister, ok := c.opts.Upstream.(perigee.ModelLister)
	if !ok {
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "there is no list of models here")
	}
	models, err := lister.Models(c.r.Context())
	if err != nil || c.key == nil || len(c.key.Models) == 0 {
		return models, err
	}
	var allowed []perigee.Model
	for _, m := range models {
		if c.key.mayAsk(m.ID) || c.key.mayAsk(c.opts.Model(m.ID)) {
			allowed = append(allowed, m)
		}
	}
	return allowed, nil
}

// unknownModel is the error about a model that is not in the list at path.
func unknownModel(id, path string, models []perigee.Model) error {
	var known []string
	for _, m := range models {
		known = append(known, m.ID)
	}
	e := perigee.Errorf(perigee.ClassNotFound, "no model %q", shorten(id))
	if near := names.Nearest(id, known, 3); len(near) > 0 {
		return e.WithNext("the nearest names are %s", strings.Join(near, ", "))
	}
	return e.WithNext("GET %s lists all", path)
}

// clientOf names the program that asks, from its User-Agent: "GeminiCLI/0.61.0/gemini-2.5-pro (linux)".
func clientOf(r *http.Request) perigee.Client {
	agent, _, _ := strings.Cut(r.UserAgent(), " ")
	name, rest, _ := strings.Cut(agent, "/")
	version, _, _ := strings.Cut(rest, "/")
	return perigee.Client{Name: printable(name, maxAgent), Version: printable(version, maxAgent), Session: sessionOf(r.Header)}
}

// What is kept of the words that clients use.
const (
	maxAgent   = 64
	maxSession = 128
)

// sessionHeaders are where clients name their conversation, in the order in which they are believed: what anybody can set, then
// what Claude Code, Codex (in three generations), OpenCode and Amp send of their own accord.
var sessionHeaders = []string{
	"X-Session-Id", "X-Claude-Code-Session-Id", "Session-Id", "Session_id", "Thread-Id", "Thread_id", "Conversation_id",
	"X-Opencode-Session", "X-Session-Affinity", "X-Amp-Thread-Id",
}

// sessionOf is what a client calls its conversation, if it says so in a header. What a body says counts for less.
func sessionOf(h http.Header) string {
	for _, name := range sessionHeaders {
		if session := printable(h.Get(name), maxSession); session != "" {
			return session
		}
	}
	return ""
}

func printable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// unknownPath is the error about a path that there is not, with the nearest that there is.
func unknownPath(method, path string) error {
	e := perigee.Errorf(perigee.ClassNotFound, "no such path: %s %s", method, shorten(path))
	var known []string
	for _, r := range routes {
		if !strings.Contains(r.path, "*") {
			known = append(known, r.path)
		}
	}
	// Clients are given base URLs with too much or too little at their ends.
	for _, prefix := range []string{"/v1/v1", "/v1/v1beta", "/v1beta/v1beta", "/v1beta/v1", "/v1beta/openai", "/v1beta", ""} {
		rest, ok := strings.CutPrefix(path, prefix+"/")
		if !ok {
			continue
		}
		for _, base := range []string{"/v1/", "/v1beta/"} {
			if route, _ := findRoute(base + rest); route != nil && route.methods[method] != nil {
				return e.WithNext("did you mean %s? look at the base URL that the client has", shorten(base+rest))
			}
		}
	}
	if near := names.Nearest(path, known, 1); len(near) > 0 && names.Distance(path, near[0]) <= 3 {
		return e.WithNext("did you mean %s?", near[0])
	}
	return e.WithNext("GET / lists the paths")
}
