package trace

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
)

// writeMeta writes meta.json when the call begins and when it ends, with notes.json and error.json
// where they apply, and again if a file turns out to be truncated after that. With an outcome, it
// is the last file that is written.
func (w *watcher) writeMeta(dir *os.Root, r *redact.Redactor, b *batch) {
	truncated := w.truncated()
	if w.meta > 0 && (!b.ended || w.final && len(truncated) == w.missing) {
		return
	}
	m := w.describe(r, b)
	if m.Truncated = truncated; len(truncated) == 0 {
		m.Truncated = nil
	}
	if b.ended && !w.final {
		w.final = true
		for _, d := range w.outcome(cleaner{r}, &b.call, m.Status) {
			w.writeJSON(dir, d, 0)
		}
	}
	if size, ok := w.writeJSON(dir, document{MetaName, m}, w.meta); ok {
		w.meta, w.missing = size, len(truncated)
	}
}

// A document is the content of a file with JSON.
type document struct {
	name  string
	value any
}

func (d document) encode() ([]byte, error) {
	data, err := json.MarshalIndent(d.value, "", "  ")
	return append(data, '\n'), err
}

// outcome returns notes.json and error.json, where they apply.
func (w *watcher) outcome(c cleaner, call *perigee.Call, status int) (list []document) {
	if len(call.Notes) > 0 {
		notes := make([]string, len(call.Notes))
		for i, n := range call.Notes {
			notes[i] = c.text(n)
		}
		list = append(list, document{NotesName, notes})
	}
	if call.Outcome != perigee.OutcomeDone {
		failure := Failure{Status: status, Class: call.Class, Outcome: call.Outcome}
		if w.bodies { // messages quote requests
			failure.Message = c.text(call.Error)
		}
		list = append(list, document{ErrorName, failure})
	}
	return list
}

// truncated returns the files that are incomplete, with the reasons.
func (w *watcher) truncated() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := map[string]string{}
	for _, f := range w.files() {
		if f == nil || f.truncated == "" {
			continue
		}
		name := f.name
		if name == "" { // nothing of the answer was written
			name = UpstreamResponse(f.exchange, w.call.Stream)
		}
		list[name] = f.truncated
	}
	return list
}

// writeJSON writes a file. before is the size of the file that it replaces; 0 if there is none. It
// returns the new size, and false if the file could not be written.
func (w *watcher) writeJSON(dir *os.Root, d document, before int64) (size int64, ok bool) {
	data, err := d.encode()
	if err == nil && (before > 0 || appendTo(dir, d.name, data, true) != nil) {
		err = replace(dir, d.name, data)
	}
	if err != nil {
		w.store.warn("trace not written", "file", filepath.Join(w.store.opts.Dir, w.path(), d.name), "error", err)
		return 0, false
	}
	w.store.ring.grow(w.entry, before, int64(len(data)))
	return int64(len(data)), true
}

// describe returns the content of meta.json.
func (w *watcher) describe(r *redact.Redactor, b *batch) Meta {
	c := cleaner{r}
	m := Meta{
		TraceRow: b.call.TraceRow(), Operation: b.call.Operation, Stream: b.call.Stream,
		Method: w.origin.method, Path: c.path(w.origin.path), Headers: c.headers(w.origin.header),
		Tries: w.tries(c, b),
	}
	m.Bodies, m.ReplayOf = w.bodies, w.origin.replayOf
	for _, text := range []*string{&m.Model, &m.ModelAsked, &m.ClientName, &m.Session, &m.Agent, &m.ParentAgent} {
		*text = c.text(*text)
	}
	if !b.ended {
		m.Outcome, m.Status = perigee.OutcomeOpen, 0
	}
	return m
}

// tries returns the requests to providers, and the attempts that sent none. An attempt has the
// requests since the one before it; requests after the last attempt belong to the call itself.
func (w *watcher) tries(c cleaner, b *batch) []Try {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []Try{}
	next := 0
	for _, a := range w.attempts {
		try := Try{Upstream: a.Upstream, Account: a.Account, Endpoint: a.Endpoint, Class: a.Class, Why: c.text(a.Why), StartedMS: milliseconds(max(a.ended-a.Took, 0))}
		if w.bodies {
			try.Error = c.text(a.Error)
		}
		list = append(list, w.exchanged(try, w.exchanges[next:a.exchanges])...)
		next = a.exchanges
	}
	if rest := w.exchanges[next:]; len(rest) > 0 || len(list) == 0 && b.ended && b.call.Upstream != "" {
		try := Try{Upstream: b.call.Upstream, Account: b.call.Account, Class: b.call.Class, Status: b.call.Status}
		if len(rest) == 0 {
			try.FirstByteMS = milliseconds(b.call.FirstByte)
		}
		if w.bodies {
			try.Error = c.text(b.call.Error)
		}
		list = append(list, w.exchanged(try, rest)...)
	}
	return list
}

// exchanged returns the tries of an attempt. An attempt is usually one request; if it has several,
// only the last has its error.
func (w *watcher) exchanged(try Try, exchanges []*exchange) []Try {
	if len(exchanges) == 0 {
		return []Try{try}
	}
	var list []Try
	for i, e := range exchanges {
		t := Try{Upstream: try.Upstream, Account: try.Account, Endpoint: e.endpoint, Why: try.Why, Status: e.status,
			StartedMS: milliseconds(e.started)}
		switch {
		case e.firstByte > 0:
			t.FirstByteMS = milliseconds(e.firstByte)
		case e.answered > 0:
			t.FirstByteMS = milliseconds(e.answered)
		}
		if i == len(exchanges)-1 {
			t.Class, t.Error = try.Class, try.Error
		}
		if e.request != nil && e.request.size > 0 {
			t.Request = e.request.name
		}
		if e.answer != nil && e.answer.size > 0 {
			t.Response = e.answer.name
		}
		list = append(list, t)
	}
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// A cleaner removes secrets from the contents of meta.json.
type cleaner struct{ known *redact.Redactor }

// text removes known secrets, and text that has the form of a credential.
func (c cleaner) text(text string) string {
	if text == "" {
		return ""
	}
	return c.known.Clipped(redact.Credentials(text))
}

// path removes the values of the parameters that have credentials.
func (c cleaner) path(path string) string {
	path, query, ok := strings.Cut(path, "?")
	if ok {
		path += "?" + strings.ReplaceAll(redact.Query(query), redact.Value, redact.Mark)
	}
	return string(c.known.AppendAll(nil, []byte(path)))
}

// headers removes the values of the headers that have credentials.
func (c cleaner) headers(header http.Header) http.Header {
	clean := make(http.Header, len(header))
	for name, values := range header {
		for _, v := range values {
			if redact.IsHeader(name) && v != "" {
				v = redact.Mark
			} else {
				v = c.text(redact.Parameters(v))
			}
			clean[name] = append(clean[name], v)
		}
	}
	return clean
}
