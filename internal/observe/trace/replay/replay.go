// Package replay sends recorded calls again, from their trace directories. A replay goes through
// the server like the request that it repeats, so it is answered in the same shape, recorded and
// traced. It is an act of the owner: it needs no key, and the limits of keys do not count.
//
// Shrinking looks for the smallest request that fails like a recorded one, by delta debugging of
// its JSON: minimize leaves out messages, tools, parts, members of schemas and other optional
// members, and shortens texts. Linked nodes are left out together: a function call and its result,
// a property and its name in required, a tool and the choice of it. So most of the requests that
// are tried are valid in their dialect, and fail in the same way or not at all.
package replay

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"perigee"
	"perigee/internal/observe/trace"
	"perigee/internal/route/record"
	"perigee/internal/server/admin"
	"perigee/internal/server/mount"
)

// The paths, each of which is followed by the ID of a call.
const (
	Path       = "/v1/replay/"
	ShrinkPath = "/v1/shrink/"
)

// Headers of an answer to a replay.
const (
	// OfHeader has the ID of the call that was sent again. An answer without it is about the replay
	// and not about the call.
	OfHeader = "X-Perigee-Replay-Of"
	// WarningHeader is the header about parts of the request that could not be repeated.
	WarningHeader = "X-Perigee-Warning"
)

// Options are the dependencies of a Service. The functions are called for each replay.
type Options struct {
	Open    func(id string) (*trace.Trace, error)
	Calls   func() perigee.CallReader
	Handler func() http.Handler // answers requests without asking for a key
	// Recorder records raw requests, and passes them on to the upstream.
	Recorder func() *record.Recorder
	NewID    func() string
	Audit    func() AuditLog
}

// An AuditLog records administrative acts.
type AuditLog interface {
	Record(ctx context.Context, e perigee.AuditEntry) error
}

// A Service sends calls again.
type Service struct{ opts Options }

// New returns a Service.
func New(opts Options) *Service { return &Service{opts} }

// Points returns the paths, for the owner only.
func (s *Service) Points() []mount.Point {
	return []mount.Point{
		mount.Methods{http.MethodPost: s.replay}.At(Path+"*", mount.Admin),
		mount.Methods{http.MethodPost: s.shrink}.At(ShrinkPath+"*", mount.Admin),
	}
}

// replay answers POST /v1/replay/{id}?upstream=&model=&raw= as the call was answered.
func (s *Service) replay(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "upstream", "model", "raw"); err != nil {
		return err
	}
	raw, err := mount.BoolParameter(query, "raw")
	if err != nil {
		return err
	}
	return s.Send(w, r, mount.Wildcard(r), Change{Upstream: query.Get("upstream"), Model: query.Get("model"), Raw: raw})
}

// A Change is the difference between a replay and the recorded call.
type Change struct {
	Upstream string // the only one that may answer; empty means that routing decides
	Model    string // in place of the recorded one; empty means the same
	Raw      bool   // repeat the last request to a provider unchanged, and return its answer
}

// Send sends a recorded call again, and writes the status, headers and body of its answer to w. If
// the replay itself fails, it returns an error and has written nothing. r is the request for the
// replay: its context ends the call, and has the actor for the audit log.
func (s *Service) Send(w http.ResponseWriter, r *http.Request, name string, change Change) error {
	ctx := r.Context()
	recorded, err := s.open(ctx, name)
	if err == nil && change.Raw {
		err = recorded.sendable(change)
	} else if err == nil {
		err = recorded.repeatable()
	}
	var again *http.Request
	if err == nil && !change.Raw {
		again, err = recorded.request(ctx, change.Model, perigee.Replay{Of: recorded.id(), Upstream: change.Upstream})
	}
	s.audit(ctx, recorded.idOr(name), change.String(), err)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Del("X-Request-Id") // of the request for the replay
	h.Set(OfHeader, recorded.id())
	if warning := recorded.warning(change.Raw); warning != "" {
		h.Set(WarningHeader, mount.HeaderSafe(warning))
	}
	if change.Raw {
		return s.sendRaw(w, r, recorded, change)
	}
	s.opts.Handler().ServeHTTP(w, again)
	return nil
}

// String is the change as the audit log has it.
func (c Change) String() string {
	var words []string
	for _, word := range []struct{ label, value string }{{"upstream", c.Upstream}, {"model", c.Model}} {
		if word.value != "" {
			words = append(words, word.label+" "+mount.Shorten(word.value))
		}
	}
	if c.Raw {
		words = append(words, "raw")
	}
	return strings.Join(words, ", ")
}

// open finds the trace of a call. A call that the store no longer has is found by its whole ID.
func (s *Service) open(ctx context.Context, name string) (*recording, error) {
	found, err := admin.FindCall(ctx, s.opts.Calls(), name)
	if err != nil && perigee.AsError(err).Class != perigee.ClassNotFound {
		return nil, err
	}
	row := perigee.TraceRow{ID: name}
	if err == nil {
		row = found.TraceRow()
	}
	t, missing := Open(ctx, s.opts.Open, &row)
	switch {
	case missing == nil:
		return &recording{Trace: t, call: found}, nil
	case err != nil:
		return nil, err
	case perigee.AsError(missing).Class == perigee.ClassNotFound:
		return nil, perigee.Errorf(perigee.ClassNotFound, "the trace directory of call %s is gone, or was never written: it cannot be sent again", row.ID).
			WithHint("traces.keep in the configuration is how much is kept; calls that succeed while perigee is busy and calls of trace shrink are not traced")
	}
	return nil, missing
}

// audit records a replay, or that it was refused.
func (s *Service) audit(ctx context.Context, object, detail string, err error) {
	entry := perigee.AuditEntry{Action: perigee.AuditTraceReplay, Object: object, Detail: detail}
	if err != nil {
		entry.Result = string(perigee.AsError(err).Class)
	}
	_ = s.opts.Audit().Record(ctx, entry) // its log line is written in any case
}

// QueryOf returns the parameters of a replay with a change.
func QueryOf(c Change) url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"upstream": c.Upstream, "model": c.Model} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Raw {
		query.Set("raw", "true")
	}
	return query
}
