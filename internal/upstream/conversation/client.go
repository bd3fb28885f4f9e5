package conversation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/trajectory"
)

// ClientOptions configure the client of a language server. Zero values mean defaults.
type ClientOptions struct {
	ReadOnly bool // the agent may not change files
	AnyModel bool // messages that name a model that the server lacks go to another model
	// Cloud lists the models of the cloud. Their display names are the labels of the server. It is
	// called if the server does not report the cloud's model IDs. It is nil if there is no list.
	Cloud func(context.Context) ([]perigee.Model, error)
}

// An LSClient is the Client of a language server, and deletes its conversations.
type LSClient struct {
	ls     *lsclient.Client
	models *lsclient.Catalogue
	opts   ClientOptions
}

// NewClient returns the client of a language server.
func NewClient(ls *lsclient.Client, opts ClientOptions) *LSClient {
	return &LSClient{ls: ls, models: &lsclient.Catalogue{Client: ls, Cloud: opts.Cloud}, opts: opts}
}

// Start implements Client.
func (c *LSClient) Start(ctx context.Context, model string) (string, error) {
	if _, err := c.resolve(ctx, model); err != nil {
		return "", err
	}
	id := lsclient.NewID()
	cascade, err := c.ls.Start(ctx, lsclient.StartOptions{Cascade: id})
	if errors.Is(err, lsclient.ErrUnclear) {
		cascade = id // it may exist
	}
	return cascade, lost(err, perigee.ClassNotFound, perigee.ClassUnavailable)
}

// Send sends the message once. If the connection is refused, package lsclient waits for a restart;
// the conversation is lost then, and the server returns an error.
func (c *LSClient) Send(ctx context.Context, cascade string, m Message) error {
	model, err := c.resolve(ctx, m.Model)
	if err != nil {
		return err
	}
	queued, err := c.ls.Send(ctx, cascade, lsclient.Message{Text: m.Text, Model: model, ReadOnly: c.opts.ReadOnly, Known: m.Known})
	if err == nil && queued {
		err = c.ls.SendQueuedWhenIdle(ctx, cascade, model, c.opts.ReadOnly)
	}
	if errors.Is(err, lsclient.ErrUnclear) && ctx.Err() == nil {
		// The server may have received the message and ended. Another process that lacks the
		// conversation lacks the message.
		if _, look := c.ls.Trajectory(ctx, cascade); look != nil && perigee.AsError(look).Class == perigee.ClassNotFound {
			err = look
		}
	}
	return lost(err, perigee.ClassNotFound, perigee.ClassUnavailable)
}

// Follow implements Client.
func (c *LSClient) Follow(ctx context.Context, cascade string, cursor *trajectory.Cursor) iter.Seq2[trajectory.Event, error] {
	return func(yield func(trajectory.Event, error) bool) {
		f := trajectory.Follower{Reader: c.ls, Cascade: cascade, Cursor: *cursor}
		for event, err := range f.Events(ctx) {
			*cursor = f.Cursor
			if !yield(event, lost(err, perigee.ClassNotFound)) {
				return
			}
		}
	}
}

// Cancel implements Client.
func (c *LSClient) Cancel(ctx context.Context, cascade string) error {
	return c.ls.Cancel(ctx, cascade)
}

// Delete removes a conversation permanently. A server of the first generation may have to load a
// conversation of an earlier process first.
func (c *LSClient) Delete(ctx context.Context, cascade string) error {
	err := c.ls.Delete(ctx, cascade)
	if missing(err) && c.ls.Load(ctx, cascade) == nil {
		err = c.ls.Delete(ctx, cascade)
	}
	if missing(err) {
		return nil
	}
	return err
}

// Inputs returns the texts of the messages of a conversation.
func (c *LSClient) Inputs(ctx context.Context, cascade string) (texts []string, err error) {
	steps, err := c.ls.Steps(ctx, cascade, 0)
	if missing(err) && c.ls.Load(ctx, cascade) == nil {
		steps, err = c.ls.Steps(ctx, cascade, 0)
	}
	if missing(err) {
		return nil, nil
	}
	for _, step := range steps {
		if in := step.GetUserInput(); in != nil {
			texts = append(texts, trajectory.UserText(in))
		}
	}
	return texts, err
}

// missing reports whether an error means that the server does not have a conversation.
func missing(err error) bool {
	return err != nil && perigee.AsError(err).Class == perigee.ClassNotFound
}

// lost wraps err in ErrLost if it has one of the classes and the server cannot have handled the
// call: it was not reached, or it was restarted and lacks the conversation.
func lost(err error, classes ...perigee.Class) error {
	if err == nil || errors.Is(err, lsclient.ErrUnclear) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := *perigee.AsError(err)
	if !slices.Contains(classes, e.Class) {
		return err
	}
	if strings.Contains(e.Message, "run state not found") || strings.Contains(e.Message, "trajectory not found") {
		e.Message, e.Hint = "the language server was restarted during the call and no longer has the conversation", ""
	}
	e.Class, e.Cause = perigee.ClassUnavailable, fmt.Errorf("%w: %w", ErrLost, err)
	return &e
}

// Models lists the enabled models by the ID of the cloud, or by a name made of the label if the
// server does not report the ID.
func (c *LSClient) Models(ctx context.Context) ([]perigee.Model, error) {
	list, err := c.models.List(ctx, true)
	if err != nil {
		return nil, err
	}
	var models []perigee.Model
	for _, m := range list {
		if !m.Disabled {
			described := m.Cloud
			described.ID, described.DisplayName, described.Methods = m.Name(), m.Label, []string{"generateContent", "countTokens"}
			models = append(models, described)
		}
	}
	return models, nil
}

// resolve returns the enum value by which messages name a model.
func (c *LSClient) resolve(ctx context.Context, name string) (enum string, err error) {
	m, err := c.find(ctx, name)
	if err != nil && c.opts.AnyModel && perigee.AsError(err).Class == perigee.ClassNotFound {
		list, _ := c.models.List(ctx, false)
		if i := slices.IndexFunc(list, func(m lsclient.Described) bool { return !m.Disabled }); i >= 0 {
			return list[i].Enum, nil
		}
	}
	return m.Enum, err
}

// ModelID returns the ID of the model that a request names.
func (c *LSClient) ModelID(ctx context.Context, name string) (string, error) {
	m, err := c.find(ctx, name)
	return m.Name(), err
}

// find returns a model by its ID, label or enum.
func (c *LSClient) find(ctx context.Context, name string) (lsclient.Described, error) {
	m, err := c.models.Find(ctx, name)
	return m, lost(err, perigee.ClassUnavailable)
}
