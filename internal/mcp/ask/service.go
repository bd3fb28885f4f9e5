package ask

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/route/record"
)

// A Source is an Asker of a Service.
type Source struct {
	Name  string // name in the configuration: ide, langserver, model
	Asker Asker  // if nil, the source is skipped for the reason in Why
	Why   string
}

// A Holder is an Asker that can identify its own conversations. Has may report true for a
// conversation that Ask does not find.
type Holder interface {
	Has(ctx context.Context, conversation string) (bool, error)
}

// Options configure a Service.
type Options struct {
	// Sources returns the sources in the order in which they are tried. It is called for each ask.
	Sources func() []Source

	// Idle returns how long an ask without a Timeout may run without progress, and Max how long in
	// total.
	Idle, Max func() time.Duration

	// Names returns the names by which a key allows a model. If it is nil, that is the name itself.
	Names func(ctx context.Context, name string) []string

	// Record records each ask as a call. Sources must not record asks themselves. If it is nil,
	// asks are not recorded.
	Record *record.Recorder
	NewID  func() string // for calls without an ID in their Request; perigee.NewCallID if nil
}

// A Service is an Asker that returns the answer of the first source that does not decline. It
// bounds the time of asks, checks models against the client's key, and records each ask as one
// call of the dialect mcp.
type Service struct {
	opts   Options
	owners owners
}

// NewService returns a Service.
func NewService(opts Options) *Service {
	if opts.NewID == nil {
		opts.NewID = func() string { return perigee.NewCallID(time.Now()) }
	}
	s := &Service{opts: opts}
	s.owners.keys.MaxEntries = maxOwned
	return s
}

// Ask returns the answer of a source. The answer lists the sources before it that were skipped.
func (s *Service) Ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	r.ID = cmp.Or(r.ID, s.opts.NewID())
	if s.opts.Record == nil {
		return s.ask(ctx, r, progress)
	}
	c := s.begin(&r)
	defer c.observation.End(ctx)
	answer, err := s.ask(ctx, r, progress)
	c.conclude(&answer, err)
	return answer, err
}

// ask returns the answer of a source, and records which key started the conversation.
func (s *Service) ask(ctx context.Context, r Request, progress func(Progress)) (Answer, error) {
	if err := s.check(ctx, &r); err != nil {
		return Answer{}, err
	}
	limit, stop := s.limit(ctx, r.Timeout)
	defer stop()
	watch := func(p Progress) {
		if limit.progress(p) && progress != nil {
			progress(p)
		}
	}
	if r.Conversation != "" {
		if !s.owners.allow(r.Conversation, r.Client.Key) {
			return Answer{}, unknownConversation(r.Conversation)
		}
		return s.resume(limit, r, watch)
	}
	answer, err := s.first(limit, r, watch)
	if err == nil {
		s.owners.add(answer.Conversation, r.Client.Key)
	}
	return answer, err
}

// names returns the names by which a key allows a model.
func (s *Service) names(ctx context.Context, model string) []string {
	if s.opts.Names == nil {
		return []string{model}
	}
	return s.opts.Names(ctx, model)
}

// check refuses requests that no source can answer.
func (s *Service) check(ctx context.Context, r *Request) error {
	switch {
	case r.Conversation == "" && r.Decision != nil:
		return perigee.Errorf(perigee.ClassInvalid, "a decision needs a conversation").
			WithHint("give the conversation of the answer that said what the agent waits for")
	case r.Conversation == "" && strings.TrimSpace(r.Prompt) == "":
		return perigee.Errorf(perigee.ClassInvalid, "the prompt is empty").WithHint("write what is to be answered")
	case r.Prompt != "" && r.Decision != nil:
		return perigee.Errorf(perigee.ClassInvalid, "an ask has a prompt or a decision, not both").
			WithHint("give the decision first, and ask again when the agent has ended")
	case r.Timeout < 0:
		return perigee.Errorf(perigee.ClassInvalid, "the time limit is negative")
	case r.Model != "" && !slices.ContainsFunc(s.names(ctx, r.Model), r.Allows):
		return r.Forbidden(r.Model)
	}
	return nil
}

// first returns the answer of the first source that does not decline.
func (s *Service) first(ctx *limited, r Request, progress func(Progress)) (Answer, error) {
	var refused refusals
	for _, source := range s.opts.Sources() {
		if source.Asker == nil {
			refused.skip(source.Name, &perigee.Error{Message: source.Why})
			continue
		}
		answer, err := source.Asker.Ask(ctx, r, progress)
		if errors.Is(err, ErrDeclined) && ctx.Err() == nil {
			refused.add(source.Name, perigee.AsError(err))
			continue
		}
		if err != nil {
			return Answer{}, refused.after(ctx.explain(err))
		}
		answer.Source = cmp.Or(answer.Source, source.Name)
		answer.Skipped = append(slices.Clone(refused.skipped), answer.Skipped...)
		return answer, nil
	}
	if len(refused.skipped) == 0 {
		return Answer{}, perigee.Errorf(perigee.ClassUnavailable, "there is no source that could answer").
			WithHint("set mcp.ask in the configuration, for example to [ide, langserver, model]")
	}
	return Answer{}, refused.error("the prompt was not handed over: ")
}

// resume returns the answer of the source that has the conversation.
func (s *Service) resume(ctx *limited, r Request, progress func(Progress)) (Answer, error) {
	var failed refusals
	for _, source := range s.opts.Sources() {
		holder, ok := source.Asker.(Holder)
		if !ok {
			continue
		}
		has, err := holder.Has(ctx, r.Conversation)
		switch {
		case ctx.Err() != nil:
			return Answer{}, ctx.explain(ctx.Err())
		case err != nil:
			failed.add(source.Name, perigee.AsError(err))
		case has:
			answer, err := source.Asker.Ask(ctx, r, progress)
			if err != nil {
				return Answer{}, ctx.explain(err)
			}
			answer.Source = cmp.Or(answer.Source, source.Name)
			return answer, nil
		}
	}
	if len(failed.skipped) > 0 {
		return Answer{}, failed.error("conversation " + perigee.Clip(r.Conversation, 100) + " was not found, and not every source could be asked: ")
	}
	return Answer{}, unknownConversation(r.Conversation)
}

func unknownConversation(id string) error {
	return perigee.Errorf(perigee.ClassNotFound, "no source has the conversation %s", perigee.Clip(id, 100)).
		WithHint("leave conversation out to start a new one; those of models are kept for 24 hours, " +
			"and a key continues only those that it began, with an agent until perigee is restarted")
}

// refusals are the sources that have not answered.
type refusals struct {
	skipped []Skipped
	classes []perigee.Class // errors of the sources that were tried
	hints   []string
}

// add adds a source that was tried.
func (r *refusals) add(source string, e *perigee.Error) {
	r.classes = append(r.classes, e.Class)
	r.skip(source, e)
}

// skip adds a source that was not tried.
func (r *refusals) skip(source string, e *perigee.Error) {
	r.skipped = append(r.skipped, Skipped{Source: source, Reason: e.Message, Public: e.Public})
	if e.Hint != "" && !slices.Contains(r.hints, e.Hint) {
		r.hints = append(r.hints, e.Hint)
	}
}

// after adds the sources that were skipped before to an error.
func (r *refusals) after(err error) error {
	if len(r.skipped) == 0 {
		return err
	}
	e := *perigee.AsError(err)
	all, public := r.list()
	if e.Public != "" || public != all {
		e.Public = cmp.Or(e.Public, e.Error()) + " (skipped: " + public + ")"
	}
	e.Message += " (skipped: " + all + ")"
	return &e
}

// list returns the sources with their reasons: all details, and the version for clients that may
// not see details of this machine.
func (r *refusals) list() (all, public string) {
	var texts, forClients []string
	for _, s := range r.skipped {
		texts = append(texts, s.Source+": "+s.Reason)
		forClients = append(forClients, s.Source+": "+cmp.Or(s.Public, s.Reason))
	}
	return strings.Join(texts, "; "), strings.Join(forClients, "; ")
}

// error returns an error that names all sources after a text. Its class is the common class of the
// sources that were tried, or else unavailable.
func (r *refusals) error(text string) *perigee.Error {
	all, public := r.list()
	e := &perigee.Error{Class: perigee.ClassUnavailable, Message: text + all}
	if public != all {
		e.Public = text + public
	}
	if classes := slices.Compact(slices.Clone(r.classes)); len(classes) == 1 {
		e.Class = classes[0]
	}
	e.Hint = strings.Join(r.hints, "; or ")
	if e.Hint == "" {
		e.Hint = "`perigee bridge list` shows the open windows, `perigee langserver status` the language servers, `perigee models` the models"
	}
	e.Cause = ErrDeclined
	return e
}
