package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/trace/replay"
)

// Bounds of searches for smallest requests.
const (
	maxSearches  = 8        // searches with their results that are kept
	shownRequest = 64 << 10 // bytes of a result
)

// searches are the searches for the smallest requests of calls, the oldest first. At most one is
// running: each makes many calls.
type searches struct {
	mu   sync.Mutex
	list []*pages.Search
}

// of returns the last search for a call.
func (s *searches) of(id string) (found pages.Search, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.list {
		if x.Call == id {
			return *x, true
		}
	}
	return found, false
}

// begin adds a search in place of an earlier one for the same call. The result is nil if one for
// this call is running already.
func (s *searches) begin(x pages.Search) (*pages.Search, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.list {
		switch {
		case other.Running && other.Call == x.Call:
			return nil, nil
		case other.Running:
			return nil, perigee.Errorf(perigee.ClassCapacity, "call %s is being shrunk, and one call is at a time", other.Call).
				WithHint("wait until that has ended, two minutes at most")
		}
	}
	s.list = slices.DeleteFunc(s.list, func(other *pages.Search) bool { return other.Call == x.Call })
	if len(s.list) == maxSearches {
		s.list = s.list[1:]
	}
	x.Running = true
	s.list = append(s.list, &x)
	return &x, nil
}

// change calls f, which changes a search that begin has returned.
func (s *searches) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// shrink starts a search for the smallest request that fails like the call, and redirects to the
// page of the search. The search continues if the browser leaves that page.
func (v *visit) shrink(found *perigee.Call) error {
	x, err := v.searches.begin(pages.Search{Call: found.ID, Began: v.now})
	if err != nil {
		return err
	}
	if x != nil {
		go v.runSearch(context.WithoutCancel(v.ctx), x)
	}
	return v.redirect("/dashboard/calls/" + found.ID + "/shrink")
}

// runSearch runs a search until it ends.
func (d *Dashboard) runSearch(ctx context.Context, x *pages.Search) {
	result, err := d.opts.Shrink(ctx, x.Call, func(p replay.Progress) {
		d.searches.change(func() { x.Progress = p })
	})
	if err != nil {
		e := perigee.AsError(err)
		problem, hint := d.opts.Redact(e.Message), d.opts.Redact(e.Hint)
		d.searches.change(func() { x.Running, x.Problem, x.Hint = false, problem, hint })
		return
	}
	result.Request, result.Stopped = d.opts.Redact(result.Request), d.opts.Redact(result.Stopped)
	cut := len(result.Request) > shownRequest
	if cut {
		result.Request = strings.ToValidUTF8(result.Request[:shownRequest], "")
	}
	d.searches.change(func() { x.Running, x.Result, x.Cut = false, *result, cut })
}

// search shows the progress or the result of the search for a call's smallest request.
func (v *visit) search(found *perigee.Call) error {
	x, ok := v.searches.of(found.ID)
	if !ok {
		return v.redirect("/dashboard/calls/" + found.ID)
	}
	if !x.Running { // until then, nothing of the trace is on the page
		v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: found.ID, Detail: "shrink"}, nil)
	}
	return v.render(200, "Shrink "+pages.ShortID(found.ID), "calls", pages.Shrink{Search: x, Asked: v.clean(*found), Token: v.session.FormToken()})
}
