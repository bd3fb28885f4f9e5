// Package ide answers with the agent of an open Antigravity window: as an ask.Asker, and as an
// upstream with one model.
//
// Windows are searched for on each ask: by the announcements of perigee's extension, and by the
// running language servers. The prompt goes to the agent through the language server of the
// window. Only if the language server has not accepted it, it goes through the extension, which
// uses the same agent. Between asks the package has no connections and makes no calls.
package ide

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/lru"
	"perigee/internal/mcp/ask"
	"perigee/internal/upstream/conversation"
)

// Source is the source of answers.
const Source = "ide"

// Model is the only model of the upstream.
const Model = "antigravity-agent"

// Options configure an Upstream. Zero values mean defaults.
type Options struct {
	Name      string // name in the configuration
	Workspace string // the directory of the window to use if an ask names none
	// directory with the files of the IDE, which also selects the processes that count; by default
	// the user's home, and all processes
	Home    string
	Bridges string // the directory of announcements; default: bridge.Dir
	Version string // version of perigee

	// Limits of the upstream: conversations at once (2 by default), calls that may wait for one,
	// and how long they wait.
	Concurrency, Depth int
	Timeout            time.Duration

	Logger *slog.Logger

	limits limits
}

// An Upstream answers with the agents of the open windows of the IDE.
type Upstream struct {
	*conversation.Upstream
	opts Options

	mu      sync.Mutex
	agents  lru.Map[agentKey, *ask.Agent]
	servers lru.Map[serverKey, discover.Candidate] // language servers that have answered
	// process of the window that had a conversation last
	holder  lru.Map[string, int]
	running *search               // nil if none runs
	panels  map[int]chan struct{} // by the process of the window; full while a prompt is on its way
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
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.limits = cmp.Or(opts.limits, usualLimits)
	u := &Upstream{opts: opts, panels: map[int]chan struct{}{}}
	u.agents.MaxEntries, u.servers.MaxEntries, u.holder.MaxEntries = 32, 64, 4096
	u.Upstream = conversation.New(conversation.Options{
		Name: opts.Name, Client: newClient(u), Attached: true,
		Concurrency: opts.Concurrency, Depth: opts.Depth, Timeout: opts.Timeout, Logger: opts.Logger,
	})
	return u
}

// Ask returns the answer of a window's agent. It chooses the window that has the conversation, or
// that has the workspace open.
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
	w = u.queryAgain(ctx, w)
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
		return u.windowOf(ctx, open, r)
	}
	return open.choose(cmp.Or(r.Workspace, u.opts.Workspace), r.Roots)
}

// ask sends the prompt through the language server, and through the extension if the language
// server has not accepted it.
func (u *Upstream) ask(ctx context.Context, w *window, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	var refusal error
	if w.endpoint != (lsclient.Endpoint{}) {
		q := r
		q.Workspace = w.inside(r.Workspace)
		answer, err := u.agent(w).Ask(ctx, q, progress)
		// A conversation of the language server is not continued through the extension.
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

// agent returns the agent of a window. It is kept, because it holds the window's models and the
// conversations in use.
func (u *Upstream) agent(w *window) *ask.Agent {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := agentKey{w.endpoint, strings.Join(w.folders, "\x00")}
	a, ok := u.agents.Get(key)
	if !ok {
		a = ask.NewAgent(w.client(u.opts.Logger), ask.AgentOptions{Source: Source, Upstream: u.opts.Name, Workspaces: w.folders, Logger: u.opts.Logger})
		u.agents.Put(key, a)
	}
	return a
}

// remember records which window has a conversation.
func (u *Upstream) remember(id string, w *window) {
	if id == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.holder.Put(id, w.pid)
}

func (u *Upstream) lastWindow(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	pid, _ := u.holder.Get(id)
	return pid
}
