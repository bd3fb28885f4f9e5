package ide

import (
	"cmp"
	"context"
	"errors"
	"time"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/bridge"
)

// askExtension sends the prompt to the agent through the extension.
func (u *Upstream) askExtension(ctx context.Context, w *window, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	switch {
	case w.hello == nil:
		return ask.Answer{}, w.problem
	case !w.extension():
		return ask.Answer{}, ask.Declined(perigee.ClassUnavailable, "%s has no agent", w).WithHint("open the workspace in Antigravity")
	case r.Decision != nil:
		return ask.Answer{}, perigee.Errorf(perigee.ClassUnimplemented, "the language server of the window cannot be reached, and the extension hands over no decisions").
			WithHint("decide in Antigravity")
	case r.Model == "" && r.Prompt != "" && !r.Allows(Model): // the IDE chooses, and any of its models may answer
		e := r.Forbidden(Model)
		e.Cause = ask.ErrDeclined
		return ask.Answer{}, e
	case w.hello.Capabilities.Follow:
	case r.ReadOnly:
		return ask.Answer{}, perigee.Errorf(perigee.ClassUnimplemented, "prompts through the panel of the window cannot be read-only").
			WithHint("ask without read_only")
	case r.Model != "":
		return ask.Answer{}, ask.Declined(perigee.ClassUnimplemented, "the prompt would go through the panel of the window, which has the model that is chosen there").
			WithHint("choose the model in Antigravity and name none")
	}
	conn, err := bridge.Dial(ctx, w.announced, u.opts.Version)
	if err != nil {
		return ask.Answer{}, err
	}
	defer conn.Close()
	if w.hello.Capabilities.Follow {
		return conn.Ask(ctx, r, progress)
	}
	p := &panel{u: u, w: w, conn: conn, r: r}
	p.Following = ask.Following{Progress: progress, Cancel: p.cancel, Explain: answerError}
	p.places()
	if r.Prompt == "" {
		return p.resume(ctx)
	}
	return p.ask(ctx)
}

// A panel is an ask that puts its prompt into the panel of the window. The panel returns no
// answer; the answer is found in the files of the IDE.
type panel struct {
	ask.Following
	u    *Upstream
	w    *window
	conn *bridge.Conn
	r    ask.Request

	sources []trajectory.Source
	readers []trajectory.Reader
}

// places sets the sources in which the conversation can be found.
func (p *panel) places() {
	if p.w.endpoint != (lsclient.Endpoint{}) {
		ls := p.w.client(p.u.opts.Logger)
		p.sources, p.readers = append(p.sources, trajectory.LanguageServerSource(ls)), append(p.readers, ls)
	}
	if p.conn.Hello.Capabilities.State {
		p.sources = append(p.sources, trajectory.RecentSource(p.recent))
	}
	for _, dir := range trajectory.ConversationDirs(p.u.opts.Home) {
		p.sources, p.readers = append(p.sources, trajectory.ConversationFilesSource(dir)), append(p.readers, trajectory.Database{Dir: dir})
	}
	for _, path := range trajectory.StateDatabases(p.u.opts.Home) {
		p.sources = append(p.sources, trajectory.StateDatabaseSource(path))
	}
}

// recent returns the conversations that the extension lists.
func (p *panel) recent(ctx context.Context) ([]trajectory.Summary, error) {
	known, err := p.conn.Recent(ctx, recentLimit)
	return summaries(known), err
}

// summaries converts a list of the extension.
func summaries(known []bridge.Conversation) (list []trajectory.Summary) {
	for _, c := range known {
		s := trajectory.Summary{ID: c.ID, Modified: c.ModifiedAt(), Steps: c.Steps}
		if c.Workspace != "" {
			s.Workspaces = []string{c.Workspace}
		}
		list = append(list, s)
	}
	return list
}

// ask submits the prompt and follows its conversation.
func (p *panel) ask(ctx context.Context) (ask.Answer, error) {
	leave, err := p.u.enterPanel(ctx, p.w.pid)
	if err != nil {
		return ask.Answer{}, err
	}
	match, err := p.submit(ctx, leave)
	if errors.Is(err, errSubmitted) {
		return p.Interrupted(ctx, err), nil
	}
	if err != nil {
		return ask.Answer{}, err
	}
	p.Conversation, p.Cursor.First = match.Conversation, match.Step
	p.u.remember(p.Conversation, p.w)
	if len(p.readers) == 0 {
		return p.Interrupted(ctx, errNoReader), nil
	}
	p.Reader = trajectory.Failover(cmp.Or(match.Reader, p.readers[0]), p.readers)
	return p.Answer(ctx), nil
}

var errNoReader = perigee.Errorf(perigee.ClassUnavailable, "nothing on this machine shows the conversation").
	WithHint("look at it in Antigravity")

// errSubmitted is in the chain of an error after which the agent may have received the prompt.
var errSubmitted = errors.New("the prompt may have been handed over")

// submit puts the prompt into the panel and finds its conversation. It calls leave to admit the
// next prompt.
func (p *panel) submit(ctx context.Context, leave func()) (trajectory.Match, error) {
	defer leave()
	s, err := p.conn.Submit(ctx, p.r.ID, p.r.Prompt, p.r.Conversation)
	if errors.Is(err, bridge.ErrUnclear) {
		return trajectory.Match{}, submitError(err)
	}
	if err != nil {
		return trajectory.Match{}, err
	}
	q := trajectory.Query{Prompt: p.r.Prompt, Workspaces: p.w.folders, Conversation: p.r.Conversation, Before: summaries(s.Before)}
	q.Since, _ = time.Parse(time.RFC3339Nano, s.Time)
	match, err := trajectory.Find(ctx, q, p.sources, p.readers)
	for _, d := range match.Degraded {
		p.u.opts.Logger.Debug("source of conversations degraded", "upstream", p.u.opts.Name, "call", p.r.ID, "problem", d)
	}
	if err != nil {
		return match, submitError(err)
	}
	return match, nil
}

func submitError(err error) error {
	e := *perigee.AsError(err)
	e.Cause = errors.Join(errSubmitted, err)
	return &e
}

// resume waits for the answer that is being written in a conversation.
func (p *panel) resume(ctx context.Context) (ask.Answer, error) {
	p.Conversation = p.r.Conversation
	last := error(errNoReader)
	for _, reader := range p.readers {
		now, err := trajectory.Read(ctx, reader, p.Conversation)
		if err == nil {
			p.Turn, p.Cursor, p.Reader = now.Turn, now.Cursor, reader
			return p.Answer(ctx), nil
		}
		last = err
	}
	return ask.Answer{}, perigee.AsError(last)
}

// answerError returns the error for an answer that cannot be followed to its end, after the prompt
// was submitted.
func answerError(err error) *perigee.Error {
	e := *perigee.AsError(err)
	if e.Class == perigee.ClassNotFound || e.Class == perigee.ClassInternal {
		e.Class = perigee.ClassUnavailable
	}
	e.Message = "the prompt is in the panel of the window, but its answer was not found: " + e.Message
	e.Hint = "look at the conversation in Antigravity before you ask again"
	return &e
}

// cancel stops the agent if its language server is known. The panel has no method for it.
func (p *panel) cancel(ctx context.Context) {
	if p.w.endpoint == (lsclient.Endpoint{}) || p.Conversation == "" {
		p.u.opts.Logger.Warn("conversation not cancelled", "upstream", p.u.opts.Name, "call", p.r.ID, "error", "the panel cannot be stopped from outside")
		return
	}
	if err := p.w.client(p.u.opts.Logger).Cancel(context.WithoutCancel(ctx), p.Conversation); err != nil {
		p.u.opts.Logger.Warn("conversation not cancelled", "upstream", p.u.opts.Name, "call", p.r.ID, "error", err)
	}
}

// enterPanel waits until no other prompt is on its way through the panel of a window, because the
// conversations of two prompts could not be distinguished. The caller must call leave.
func (u *Upstream) enterPanel(ctx context.Context, pid int) (leave func(), err error) {
	u.mu.Lock()
	place, ok := u.panels[pid]
	if !ok {
		place = make(chan struct{}, 1)
		u.panels[pid] = place
	}
	u.mu.Unlock()
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, perigee.AsError(ctx.Err())
	}
}
