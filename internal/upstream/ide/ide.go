// Package ide has the agent of an open Antigravity window answer: as an ask.Asker, and as an
// upstream with one model.
//
// Windows are found when there is something to ask: by the announcements of perigee's extension,
// and by the language servers that run. The agent is asked through the language server of the
// window. Only if that has not taken the prompt, the extension is asked, which has the same agent
// behind it. Between asks the package has no connections and makes no calls.
package ide

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/lru"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/ask/agent"
	"perigee/internal/upstream/conversation"
)

// Source is the source of answers.
const Source = "ide"

// Model is the only model of the upstream.
const Model = "antigravity-agent"

// Options configure an Upstream. Zero values mean defaults.
type Options struct {
	Name      string // as the configuration calls it
	Workspace string // the directory whose window is asked if an ask names none
	Home      string // with the files of the IDE, and of the processes that count; default: that of the user, and all processes
	Bridges   string // the directory of announcements; default: bridge.Dir
	Version   string // of perigee

	// Of the upstream: conversations at once (default 2), calls that may wait for one, and how
	// long.
	Concurrency, Depth int
	Timeout            time.Duration

	Logger *slog.Logger

	limits limits
}

// An Upstream asks the windows of the IDE.
type Upstream struct {
	*conversation.Upstream
	opts Options

	mu      sync.Mutex
	agents  lru.Map[agentKey, *agent.Agent]
	servers lru.Map[serverKey, discover.Candidate] // that have answered
	holder  lru.Map[string, int]                   // conversation to the process of the window that had it last
	running *search                                // nil: none runs
	panels  map[int]chan struct{}                  // by the process of the window; full while a prompt is on its way
}

var (
	_ perigee.Upstream     = (*Upstream)(nil)
	_ perigee.ModelLister  = (*Upstream)(nil)
	_ perigee.TokenCounter = (*Upstream)(nil)
	_ ask.Asker            = (*Upstream)(nil)
	_ ask.Holder           = (*Upstream)(nil)
)

// New returns an Upstream.
func New(opts Options) *Upstream {
	opts.Name = cmp.Or(opts.Name, Source)
	opts.Version = cmp.Or(opts.Version, "devel")
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.limits == (limits{}) {
		opts.limits = usualLimits
	}
	u := &Upstream{opts: opts, panels: map[int]chan struct{}{}}
	u.agents.MaxEntries, u.servers.MaxEntries, u.holder.MaxEntries = 32, 64, 4096
	u.Upstream = conversation.New(conversation.Options{
		Name: opts.Name, Client: newClient(u), Attached: true,
		Concurrency: opts.Concurrency, Depth: opts.Depth, Timeout: opts.Timeout, Logger: opts.Logger,
	})
	return u
}

// Ask has the agent of a window answer: of the one that has the conversation, or the workspace
// open.
func (u *Upstream) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	if err := ctx.Err(); err != nil {
		return ask.Answer{}, perigee.AsError(err)
	}
	r.ID = cmp.Or(r.ID, lsclient.NewID())
	open, err := u.look(ctx)
	if err != nil {
		return ask.Answer{}, err
	}
	w, err := u.window(ctx, open, r)
	if err != nil {
		return ask.Answer{}, err
	}
	w = u.awake(ctx, w)
	answer, err := u.ask(ctx, w, r, progress)
	if err != nil {
		return ask.Answer{}, err
	}
	answer.Source = Source
	u.remember(answer.Conversation, w)
	return answer, nil
}

// window chooses the window of an ask.
func (u *Upstream) window(ctx context.Context, open *windows, r ask.Request) (*window, error) {
	if r.Conversation != "" {
		return u.having(ctx, open, r)
	}
	return open.choose(cmp.Or(r.Workspace, u.opts.Workspace), r.Roots)
}

// ask asks the agent through the language server, and through the extension if that has not taken
// the prompt.
func (u *Upstream) ask(ctx context.Context, w *window, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	var refusal error
	if w.endpoint != (lsclient.Endpoint{}) {
		q := r
		q.Workspace = w.inside(r.Workspace)
		answer, err := u.agent(w).Ask(ctx, q, progress)
		// A conversation that the language server has is not continued behind its back.
		if err == nil || !errors.Is(err, ask.ErrDeclined) || ctx.Err() != nil || r.Conversation != "" || !w.extension() {
			return answer, err
		}
		refusal = err
		u.opts.Logger.Debug("language server declined, asking the extension", "upstream", u.opts.Name, "call", r.ID, "window", w.pid, "error", err)
	}
	answer, err := u.askExtension(ctx, w, r, progress)
	if err != nil && refusal != nil && errors.Is(err, ask.ErrDeclined) {
		first, second := perigee.AsError(refusal), perigee.AsError(err)
		e := ask.Declined(first.Class, "%s; through the extension: %s", first.Message, second.Message)
		e.Hint = cmp.Or(first.Hint, second.Hint)
		if first.Public != "" || second.Public != "" {
			e.Public = cmp.Or(first.Public, first.Message) + "; through the extension: " + cmp.Or(second.Public, second.Message)
		}
		return answer, e
	}
	return answer, err
}

// An agentKey identifies a language server and its directories.
type agentKey struct {
	endpoint lsclient.Endpoint
	folders  string
}

// agent returns the agent of a window. It is kept, because it knows the conversations that are
// asked in and the models.
func (u *Upstream) agent(w *window) *agent.Agent {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := w.key()
	a, ok := u.agents.Get(key)
	if !ok {
		a = agent.New(w.client(u.opts.Logger), agent.Options{Source: Source, Upstream: u.opts.Name, Workspaces: w.folders, Logger: u.opts.Logger})
		u.agents.Put(key, a)
	}
	return a
}

// remember keeps which window has a conversation.
func (u *Upstream) remember(id string, w *window) {
	if id == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.holder.Put(id, w.pid)
}

func (u *Upstream) remembered(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	pid, _ := u.holder.Get(id)
	return pid
}
