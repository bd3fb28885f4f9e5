package ask

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

// simulatorLine is the first line of an answer of the simulator.
const simulatorLine = "[perigee simulator: no model is configured]"

// ModelOptions configure a ModelAsker. All fields are required.
type ModelOptions struct {
	Upstream perigee.Upstream // answers; it must not record calls
	// Model returns the model for asks that name none. If it returns "", the default of the
	// upstream answers, or else one of its models.
	Model func() string
	// Names returns the names by which a key allows a model; the last is the model's, or empty.
	Names     func(ctx context.Context, name string) []string
	Simulated func() bool // reports whether answers come from the simulator
	// Store keeps each conversation as a response of the Responses API, so that common parts of
	// conversations are stored once, and the limits of stored responses apply to them.
	Store  perigee.ResponseStore
	Now    func() time.Time
	Logger *slog.Logger
}

// A ModelAsker is an Asker that answers with a model.
type ModelAsker struct {
	opts ModelOptions
	busy sync.Map // IDs of the conversations with a running ask
}

// NewModelAsker returns a ModelAsker.
func NewModelAsker(opts ModelOptions) *ModelAsker { return &ModelAsker{opts: opts} }

// Has reports whether a conversation is one with a model, even if it has expired or belongs to
// another key.
func (a *ModelAsker) Has(_ context.Context, conversation string) (bool, error) {
	return strings.HasPrefix(conversation, ModelConversation), nil
}

// Ask sends the prompt to the model. A model has no tools, so an ask is always read-only.
func (a *ModelAsker) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	switch {
	case r.Decision != nil:
		return Answer{}, perigee.Errorf(perigee.ClassInvalid, "a model waits for no decision").WithHint("write a prompt")
	case strings.TrimSpace(r.Prompt) == "":
		return Answer{}, perigee.Errorf(perigee.ClassInvalid, "a model goes on only with a prompt").WithHint("write a prompt, such as \"continue\"")
	}
	if r.Conversation != "" {
		// One of two answers in a conversation would be lost.
		if _, running := a.busy.LoadOrStore(r.Conversation, nil); running {
			return Answer{}, perigee.Errorf(perigee.ClassUnavailable, "another ask is running in this conversation").WithHint(busyHint)
		}
		defer a.busy.Delete(r.Conversation)
	}
	talk, err := a.open(ctx, &r)
	if err != nil {
		return Answer{}, err
	}
	name, err := a.choose(ctx, &r)
	if err != nil {
		return Answer{}, err
	}
	e := exchange{asker: a, request: &r, progress: progress, conversation: talk}
	return e.run(ctx, name)
}

// choose returns the name of the model to use, which the key must allow.
func (a *ModelAsker) choose(ctx context.Context, r *Request) (string, error) {
	name := cmp.Or(r.Model, a.opts.Model())
	names := a.opts.Names(ctx, name)
	resolved := names[len(names)-1]
	if resolved == "" {
		return a.any(ctx, r)
	}
	if !slices.ContainsFunc(names, r.Allows) {
		return "", r.Forbidden(cmp.Or(name, resolved))
	}
	return name, nil
}

// any returns a model that writes text, if neither the ask nor the configuration names one: a
// Flash model if there is one.
func (a *ModelAsker) any(ctx context.Context, r *Request) (string, error) {
	lister, ok := a.opts.Upstream.(perigee.ModelLister)
	if !ok {
		return "", nil // the upstream returns an error for the missing name
	}
	list, err := lister.Models(ctx)
	if err != nil {
		return "", declineUnlessInvalid(err)
	}
	best, most := "", -1
	for _, m := range list {
		if score := suitability(m); score > most && slices.ContainsFunc(a.opts.Names(ctx, m.ID), r.Allows) {
			best, most = m.ID, score
		}
	}
	if best == "" {
		return "", Declined(perigee.ClassNotFound, "there is no model that writes text").
			WithHint("set mcp.model or models.default in the configuration; `perigee models` lists the models")
	}
	return best, nil
}

// suitability returns how well a model suits a prompt of unknown kind. It is negative for models
// that do not write plain text, and for the agent of an IDE, which has a source of its own.
func suitability(m perigee.Model) int {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(m.ID, word) })
	}
	family := models.Of(m.ID).Family
	if !slices.Contains(m.Methods, "generateContent") || family == models.Image || family == models.Embedding ||
		has("image", "tts", "audio", "live", "robotics", "computer-use", "antigravity-agent") {
		return -1
	}
	score := 0
	if has("flash") {
		score += 4
	}
	if family == models.Gemini {
		score += 2
	}
	if !has("lite") {
		score++
	}
	return score
}

// declineUnlessInvalid returns an error from before the start of the answer: another source may be
// tried, unless the request is the reason.
func declineUnlessInvalid(err error) error {
	e := perigee.AsError(err)
	switch e.Class {
	case perigee.ClassInvalid, perigee.ClassForbidden, perigee.ClassCanceled, perigee.ClassUnimplemented:
		return e
	}
	return Decline(e)
}
