package ide

import (
	"context"
	"math"
	"slices"
	"sync"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/bridge"
)

// recentLimit is the number of conversations to request from a window without a known language
// server.
const recentLimit = 200

// A holding is the state of a conversation in one window.
type holding struct {
	window  *window
	has     bool
	running bool // its agent works, or waits for a person
	steps   int
	err     error // the window failed to answer
}

// Has reports whether an open window has a conversation.
func (u *Upstream) Has(ctx context.Context, id string) (bool, error) {
	open, err := u.look(ctx)
	if err != nil {
		return false, err
	}
	var failure error
	for _, h := range u.holdings(ctx, open, id) {
		if h.has {
			return true, nil
		}
		if h.err != nil {
			failure = h.err
		}
	}
	return false, failure
}

// windowOf returns the window that has a conversation. Language servers share their files, so
// several may have read it. It prefers the window with an agent that works on the conversation,
// then the one that has most of it, then the one that had it last, then the one of the ask's
// workspace.
func (u *Upstream) windowOf(ctx context.Context, open *windows, r ask.Request) (*window, error) {
	var fits []holding
	var failure *perigee.Error
	for _, h := range u.holdings(ctx, open, r.Conversation) {
		switch {
		case h.has && (len(fits) == 0 || compare(h, fits[0]) > 0):
			fits = []holding{h}
		case h.has && compare(h, fits[0]) == 0:
			fits = append(fits, h)
		case h.err != nil:
			failure = perigee.AsError(h.err)
		}
	}
	last := u.lastWindow(r.Conversation)
	switch at := slices.IndexFunc(fits, func(h holding) bool { return h.window.pid == last }); {
	case at >= 0:
		return fits[at].window, nil
	case len(fits) == 1:
		return fits[0].window, nil
	case len(fits) > 1:
		few := &windows{}
		for _, h := range fits {
			few.list = append(few.list, h.window)
		}
		return few.choose(r.Workspace, r.Roots)
	case ctx.Err() != nil:
		return nil, perigee.AsError(ctx.Err())
	case failure != nil:
		return nil, perigee.Errorf(perigee.ClassUnavailable, "conversation %s was not found, and not every window could be asked: %s",
			perigee.Clip(r.Conversation, 100), failure.Message)
	}
	return nil, perigee.Errorf(perigee.ClassNotFound, "no open window has the conversation %s", perigee.Clip(r.Conversation, 100)).
		WithHint("open its workspace in Antigravity, or leave conversation out to start a new one")
}

// compare orders holdings by how recent they are.
func compare(a, b holding) int {
	if a.running != b.running {
		if a.running {
			return 1
		}
		return -1
	}
	return a.steps - b.steps
}

// holdings queries all windows for a conversation in parallel. The window that had it last is
// queried first, because another one may be stuck.
func (u *Upstream) holdings(ctx context.Context, open *windows, id string) []holding {
	last := u.lastWindow(id)
	if at := slices.IndexFunc(open.list, func(w *window) bool { return w.pid == last }); at >= 0 {
		h := holding{window: open.list[at]}
		if h.look(ctx, u, id); h.has {
			return []holding{h}
		}
	}
	list := make([]holding, len(open.list))
	var wait sync.WaitGroup
	for i, w := range open.list {
		list[i].window = w
		wait.Go(func() { list[i].look(ctx, u, id) })
	}
	wait.Wait()
	return list
}

// look queries the window.
func (h *holding) look(ctx context.Context, u *Upstream, id string) {
	h.window = u.queryAgain(ctx, h.window)
	w := h.window
	if w.endpoint == (lsclient.Endpoint{}) {
		h.recent(ctx, u, id)
		return
	}
	state, err := w.client(u.opts.Logger).Trajectory(ctx, id)
	if err != nil {
		if class := perigee.AsError(err).Class; class != perigee.ClassNotFound && class != perigee.ClassInvalid {
			h.err = err
		}
		return
	}
	h.has, h.steps = true, int(min(state.GetNumTotalSteps(), math.MaxInt32))
	h.running = state.GetStatus() > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
}

// recent looks for the conversation in the extension's list.
func (h *holding) recent(ctx context.Context, u *Upstream, id string) {
	if h.window.hello == nil {
		h.err = h.window.problem
		return
	}
	conn, err := bridge.Dial(ctx, h.window.announced, u.opts.Version)
	if err != nil {
		h.err = err
		return
	}
	defer conn.Close()
	list, err := conn.Recent(ctx, recentLimit)
	h.err = err
	for _, c := range list {
		h.has = h.has || c.ID == id
	}
}
