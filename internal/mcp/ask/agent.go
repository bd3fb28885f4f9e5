package ask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
)

// AgentOptions configure an Agent. Zero values mean defaults.
type AgentOptions struct {
	Source   string // source in answers: ide or langserver
	Upstream string // upstream in records; Source by default

	// Workspaces are the directories that the agent works in. An ask about another directory is
	// declined. If it is empty, any directory is accepted.
	Workspaces []string
	// Track means that no IDE registers the workspaces with the language server.
	Track bool

	Models   *lsclient.Catalogue // by default one without the cloud
	ReadOnly bool                // all asks are read-only
	Logger   *slog.Logger        // nil discards all messages
}

// An Agent is an Asker that uses the agent of one language server. Several asks can run at
// once, each in a conversation of its own.
type Agent struct {
	ls   *lsclient.Client
	opts AgentOptions

	busy sync.Map // IDs of the conversations with a running ask
}

// NewAgent returns an Agent.
func NewAgent(ls *lsclient.Client, opts AgentOptions) *Agent {
	if opts.Models == nil {
		opts.Models = &lsclient.Catalogue{Client: ls}
	}
	if opts.Upstream == "" {
		opts.Upstream = opts.Source
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{ls: ls, opts: opts}
}

// Has reports whether the language server has a conversation.
func (a *Agent) Has(ctx context.Context, conversation string) (bool, error) {
	if strings.HasPrefix(conversation, ModelConversation) {
		return false, nil
	}
	_, err := a.ls.Trajectory(ctx, conversation)
	if err != nil && perigee.AsError(err).Class == perigee.ClassNotFound {
		return false, nil
	}
	return err == nil, err
}

// Ask starts a conversation with a prompt, or continues one: with a prompt, with a decision, or by
// waiting for the answer that is being written.
func (a *Agent) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	t := a.newTurn(&r, progress)
	begin := t.resume
	if r.Conversation == "" {
		t.Conversation, begin = lsclient.NewID(), t.start
	}
	// Two answers in a conversation would mix.
	if _, running := a.busy.LoadOrStore(t.Conversation, nil); running {
		return Answer{}, Declined(perigee.ClassUnavailable, "another ask is running in conversation %s", perigee.Clip(t.Conversation, maxNamed)).
			WithHint(busyHint)
	}
	defer a.busy.Delete(t.Conversation)
	var answer Answer
	var err error
	t.Cursor, err = begin(ctx)
	switch {
	case errors.Is(err, errSent):
		answer = t.Interrupted(ctx, err)
	case err != nil:
		return Answer{}, err
	default:
		answer = t.Answer(ctx)
	}
	answer.Source, answer.Model = a.opts.Source, t.model.Name()
	return answer, nil
}

// maxNamed is the maximum length of a client's name in an error.
const maxNamed = 100

// errSent is in the chain of an error after which the agent may have received the prompt.
var errSent = errors.New("the prompt may have been handed over")

// declineUnlessEnded returns the error of a language server that has not received a prompt: another
// source may be tried.
func declineUnlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return perigee.AsError(err)
	}
	return Decline(err)
}

// start creates a conversation and sends the prompt.
func (t *turn) start(ctx context.Context) (trajectory.Cursor, error) {
	a := t.agent
	workspaces, err := a.workspaces(t.request.Workspace)
	if err != nil {
		return trajectory.Cursor{}, err
	}
	if err := t.choose(ctx, ""); err != nil {
		return trajectory.Cursor{}, err
	}
	if a.opts.Track {
		for _, dir := range a.opts.Workspaces {
			if err := a.ls.AddTrackedWorkspace(ctx, dir); err != nil {
				a.opts.Logger.Debug("language server does not track the workspace", "upstream", a.opts.Upstream, "error", err)
			}
		}
	}
	options := lsclient.StartOptions{Cascade: t.Conversation, Workspaces: workspaces}
	id, err := a.ls.Start(ctx, options)
	// from a version that does not support them
	if err != nil && len(workspaces) > 0 && perigee.AsError(err).Class == perigee.ClassInvalid {
		id, err = a.ls.Start(ctx, lsclient.StartOptions{Cascade: t.Conversation})
	}
	if err != nil {
		return trajectory.Cursor{}, declineUnlessEnded(ctx, err)
	}
	t.Conversation = id
	return trajectory.Cursor{}, t.send(ctx, 0)
}

// workspaces returns the URIs of the directories of a new conversation, and declines a directory
// that is not among them.
func (a *Agent) workspaces(dir string) ([]string, error) {
	dirs := a.opts.Workspaces
	if len(dirs) == 0 && dir != "" {
		dirs = []string{dir}
	}
	uris := make([]string, len(dirs))
	inside := dir == ""
	for i, d := range dirs {
		uris[i] = (&url.URL{Scheme: "file", Path: filepath.ToSlash(d)}).String()
		relative, err := filepath.Rel(resolved(d), resolved(dir))
		inside = inside || err == nil && filepath.IsLocal(relative)
	}
	if !inside {
		return nil, Declined(perigee.ClassNotFound, "the agent works in %s, not in %s", strings.Join(dirs, ", "), dir).
			WithHint("leave workspace out, or open that directory in Antigravity")
	}
	return uris, nil
}

// resolved returns a path without links, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// resume continues a conversation.
func (t *turn) resume(ctx context.Context) (trajectory.Cursor, error) {
	now, err := trajectory.Read(ctx, t.agent.ls, t.Conversation)
	if err != nil {
		return trajectory.Cursor{}, perigee.AsError(err)
	}
	switch {
	case t.request.Decision != nil:
		return t.decide(ctx, now)
	case t.request.Prompt == "" && now.Cursor.Size() == 0:
		return trajectory.Cursor{}, perigee.Errorf(perigee.ClassInvalid, "nothing was asked in conversation %s yet", t.Conversation).
			WithHint("write a prompt")
	case t.request.Prompt == "":
		t.Turn = now.Turn
		return now.Cursor, nil
	case len(now.Turn.Waiting) > 0 && now.Running:
		return trajectory.Cursor{}, perigee.Errorf(perigee.ClassInvalid, "the agent waits for %s", waitingFor(&now.Turn)).
			WithHint("decide that before you send another prompt")
	case now.Running:
		return trajectory.Cursor{}, perigee.Errorf(perigee.ClassUnavailable, "the agent still works in conversation %s", t.Conversation).
			WithHint("ask with an empty prompt to wait for its answer")
	}
	if err := t.choose(ctx, now.Model.String()); err != nil {
		return trajectory.Cursor{}, err
	}
	now.Cursor.Over = true
	return now.Cursor, t.send(ctx, now.Cursor.Size())
}

// decide sends the decision that the agent waits for.
func (t *turn) decide(ctx context.Context, now *trajectory.Snapshot) (trajectory.Cursor, error) {
	if len(now.Turn.Waiting) == 0 || !now.Running {
		return trajectory.Cursor{}, perigee.Errorf(perigee.ClassInvalid, "the agent waits for no decision in conversation %s", t.Conversation).
			WithHint("ask with an empty prompt to see how far it is")
	}
	waiting, d := now.Turn.Waiting[0].Waiting, t.request.Decision
	if t.readOnly && d.Allow && !waiting.IsQuestion() {
		return trajectory.Cursor{}, perigee.Errorf(perigee.ClassForbidden, "a read-only ask allows the agent nothing").WithHint("deny it, or ask without read-only mode")
	}
	interaction, err := waiting.Decide(d.Allow, d.Text)
	if err != nil {
		return trajectory.Cursor{}, perigee.AsError(err)
	}
	t.Turn, t.decided = now.Turn, waiting
	if err := t.agent.ls.Interact(ctx, t.Conversation, interaction); err != nil {
		if errors.Is(err, lsclient.ErrUnclear) {
			return trajectory.Cursor{}, fmt.Errorf("%w: %w", errSent, err)
		}
		return trajectory.Cursor{}, perigee.AsError(err)
	}
	t.observe(perigee.Event{Kind: perigee.EventStart, Upstream: t.agent.opts.Upstream})
	return now.Cursor, nil
}

// choose returns the model of a message: the one that the ask names, or the previous one of the
// conversation, or the default. The key must allow it.
func (t *turn) choose(ctx context.Context, before string) (err error) {
	models, r := t.agent.opts.Models, t.request
	switch {
	case r.Model != "":
		t.model, err = models.Find(ctx, r.Model)
	case before != "" && before != "0":
		if t.model, err = models.Find(ctx, before); err != nil || t.model.Disabled || !r.Allows(t.model.Name()) {
			t.model, err = models.Default(ctx, r.AllowsModel)
		}
	default:
		t.model, err = models.Default(ctx, r.AllowsModel)
	}
	switch {
	case err != nil:
		return declineUnlessEnded(ctx, err)
	case t.model.Disabled:
		return Declined(perigee.ClassNotFound, "the model %s is disabled for the account", t.model.Name()).WithHint("name another model, or none")
	case !r.Allows(t.model.Name()):
		return r.Forbidden(t.model.Name())
	}
	return nil
}

// send sends the prompt, once. An error that wraps errSent means that the agent may have received
// it.
func (t *turn) send(ctx context.Context, known int) error {
	queued, err := t.agent.ls.Send(ctx, t.Conversation, lsclient.Message{
		Text: t.request.Prompt, Model: t.model.Enum, ReadOnly: t.readOnly, Known: known, Once: true,
	})
	switch {
	case errors.Is(err, lsclient.ErrUnclear):
		return fmt.Errorf("%w: %w", errSent, err)
	case err != nil:
		return declineUnlessEnded(ctx, err)
	}
	t.observe(perigee.Event{Kind: perigee.EventStart, Upstream: t.agent.opts.Upstream, Model: t.model.Name()})
	if queued {
		if err := t.agent.ls.SendQueuedWhenIdle(ctx, t.Conversation, t.model.Enum, t.readOnly); err != nil {
			return fmt.Errorf("%w: %w", errSent, err)
		}
	}
	return nil
}
