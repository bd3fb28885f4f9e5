package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
	"perigee/internal/server/mount"
)

// maxShrink bounds the time that shrinking takes.
const maxShrink = 120 * time.Second

// A Line is one of the answer to a request to shrink: progress, or the end.
type Line struct {
	Progress *Progress `json:"progress,omitempty"`
	Result   *Shrunk   `json:"result,omitempty"`
}

// A Progress is the progress of shrinking.
type Progress struct {
	Calls int `json:"calls"`
	Bytes int `json:"bytes"` // of the smallest request so far
}

// A Shrunk is the smallest request that was found.
type Shrunk struct {
	ID     string `json:"id"`    // of the call
	Calls  int    `json:"calls"` // that were made
	Before int    `json:"bytes_before"`
	Bytes  int    `json:"bytes"`
	Whole  bool   `json:"whole"` // nothing is left to try
	// Stopped is why the search ended early. It is empty if calls or time were used up.
	Stopped string `json:"stopped,omitempty"`
	Request string `json:"request"`
}

// shrink answers POST /v1/shrink/{id} with a line of JSON after each call, and one with the result.
func (s *Service) shrink(w http.ResponseWriter, r *http.Request) error {
	if err := mount.KnownParameters(r.URL.Query()); err != nil {
		return err
	}
	out := lineWriter{w: w}
	end, err := s.Shrink(r.Context(), mount.Wildcard(r), func(p Progress) { out.write(Line{Progress: &p}) })
	if err != nil {
		return err
	}
	out.write(Line{Result: end})
	return nil
}

// Shrink looks for the smallest request that fails as the call of a name did. It calls progress
// after each call that it makes, except for the first one, which shows whether the request still
// fails: with an error, progress was not called. ctx ends the search, and has the actor for the
// audit log.
func (s *Service) Shrink(ctx context.Context, name string, progress func(Progress)) (*Shrunk, error) {
	recorded, err := s.open(ctx, name)
	if err == nil {
		err = recorded.shrinkable()
	}
	s.audit(ctx, recorded.idOr(name), "shrink", err)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxShrink)
	defer cancel()
	was := recorded.failure()
	var is failure // of the last call
	result, err := minimize(ctx, recorded.body, searchOptions{
		fails: func(ctx context.Context, request []byte) (same bool, err error) {
			if is, err = s.try(ctx, recorded, request); err != nil {
				return false, err
			}
			if same = was.same(is); !same && transient(is.Class) {
				err = perigee.Errorf(is.Class, "a call failed for another reason: %s", cmp.Or(is.Message, string(is.Class)))
			}
			return same, err
		},
		progress: func(calls, size int) {
			if calls > 1 {
				progress(Progress{calls, size})
			}
		},
	})
	switch {
	case errors.Is(err, errDifferent):
		return nil, perigee.Errorf(perigee.ClassUnavailable, "call %s does not fail in the same way any more: it was %s, and is %s now", recorded.id(), was, is).
			WithHint("perigee trace replay %s shows the new answer", recorded.id())
	case err != nil && result.Calls <= 1:
		return nil, err
	}
	if result.ID = recorded.id(); err != nil {
		result.Stopped = err.Error()
	}
	return result, nil
}

// Shrinkable reports whether a call has failed because of its request, according to its record.
func Shrinkable(c *perigee.Call) bool {
	return c.Outcome != perigee.OutcomeOpen && c.Class != "" && !transient(c.Class)
}

// transient reports whether errors of a class do not depend on the request.
func transient(class perigee.Class) bool {
	switch class {
	case perigee.ClassRateLimited, perigee.ClassExhausted, perigee.ClassCapacity, perigee.ClassUnauthenticated, perigee.ClassVerification,
		perigee.ClassIdentity, perigee.ClassCanceled:
		return true
	}
	return false
}

// shrinkable reads the request, and returns an error if there is no failure to look for.
func (r *recording) shrinkable() error {
	class, outcome := r.Meta.Class, r.Meta.Outcome
	if r.call != nil {
		class, outcome = r.call.Class, r.call.Outcome
	}
	wrong := func(format string, args ...any) error {
		return perigee.Errorf(perigee.ClassInvalid, format, args...).WithHint("perigee trace list --errors shows calls that failed")
	}
	switch {
	case outcome == perigee.OutcomeOpen:
		return wrong("call %s has not ended", r.id())
	case class == "":
		return wrong("call %s did not fail", r.id())
	case transient(class):
		return wrong("call %s failed with %s, which is not about its request", r.id(), class)
	}
	return r.repeatable()
}

// failure returns how the call failed.
func (r *recording) failure() failure {
	f := failure{Status: r.Meta.Status, Class: r.Meta.Class}
	if r.call != nil {
		f.Status, f.Class, f.Message = r.call.TraceRow().Status, r.call.Class, r.call.Error
	} else {
		var e trace.Failure
		if raw, err := r.Read(trace.ErrorName); err == nil && json.Unmarshal(raw, &e) == nil {
			f.Message = e.Message
		}
	}
	names := slices.AppendSeq(r.Files(), maps.Keys(r.Meta.Truncated)) // a file that is too large may be missing
	f.Provider = slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "upstream_request") })
	return f
}

// try sends a smaller request, and returns how it failed. The zero value means that it did not
// fail.
func (s *Service) try(ctx context.Context, of *recording, body []byte) (f failure, err error) {
	var seen outcome
	req, err := of.withBody(ctx, of.Meta.Path, body, perigee.Replay{Of: of.id(), Trial: true, Watcher: &seen})
	if err != nil {
		return f, err
	}
	w := &discarder{header: http.Header{}}
	func() {
		defer func() { // an answer that is cut off ends with a panic
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		s.opts.Handler().ServeHTTP(w, req)
	}()
	if err := ctx.Err(); err != nil {
		return f, err
	}
	call, provider := seen.end()
	if call == nil { // it was refused before it counted as a call
		return failure{Status: w.status, Class: perigee.Class(w.header.Get("X-Perigee-Class"))}, nil
	}
	if call.Class == "" {
		return f, nil
	}
	return failure{Status: call.TraceRow().Status, Class: call.Class, Provider: provider, Message: call.Error}, nil
}

// An outcome is a watcher that records how a call ended. A request may cause several calls, as for
// images: the first failure counts.
type outcome struct {
	mu       sync.Mutex
	call     *perigee.Call
	provider bool // a provider was asked
}

func (o *outcome) Body(at perigee.TapPoint, _ ...[]byte) {
	if at == perigee.TapProviderRequest {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.provider = true
	}
}

func (o *outcome) Done() {}

func (o *outcome) Event(*perigee.Event) {}

func (o *outcome) Ended(c *perigee.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.call == nil || o.call.Class == "" {
		o.call = new(*c)
	}
}

func (o *outcome) end() (call *perigee.Call, provider bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.call, o.provider
}

// A discarder is an answer of which only status and headers are kept.
type discarder struct {
	header http.Header
	status int
}

func (d *discarder) Header() http.Header { return d.header }

func (d *discarder) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

func (d *discarder) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	return len(p), nil
}

// Flush does nothing: there is no client.
func (d *discarder) Flush() {}

// A lineWriter writes lines of JSON, each at once.
type lineWriter struct {
	w     http.ResponseWriter
	began bool
}

func (l *lineWriter) write(line Line) {
	if !l.began {
		l.began = true
		mount.StreamHeader(l.w.Header(), "application/jsonl")
	}
	// A client that has disconnected ends the context.
	if err := json.NewEncoder(l.w).Encode(line); err == nil {
		_ = http.NewResponseController(l.w).Flush()
	}
}
