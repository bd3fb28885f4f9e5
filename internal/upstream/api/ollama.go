package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/adapt/schema"
	dialect "perigee/internal/dialect/ollama"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// newOllama returns the provider for a server of Ollama, in its own API: the server's other APIs have
// no member for the context, and cut longer prompts silently.
func newOllama(u config.Upstream) *Provider {
	o := &ollamaServer{most: int64(cmp.Or(u.Context, 65536)), keep: u.KeepAlive, schemas: schema.NewCache(schema.CacheBytes)}
	w := &Wire{
		dialect: dialect.Dialect,
		lines:   true,
		stops:   math.MaxInt,
		target:  func(base, _ string, _ bool) string { return base + ollamaChat },
		message: func(req *perigee.Request) (message, error) { return o.message(req, o.known(req.Model)) },
		decoder: func(bool) decoder { return new(dialect.Decoder) },
		repair:  o.repair,
	}
	return &Provider{
		authorize: authorization("bearer"),
		wire:      func(*perigee.Request) *Wire { return w },
		prepare:   o.prepare,
		raw: func(base string, r *perigee.RawRequest) string {
			if r.Operation == perigee.OperationEmbed {
				return base + ollamaEmbed
			}
			return base + ollamaChat
		},
		reasoning: func(*perigee.Request) perigee.Reasoning {
			return perigee.Reasoning{Provider: ownReasoning(u), Form: perigee.ReasoningInText}
		},
		models: &listing{
			target: func(base, _ string) string { return base + "/api/tags" },
			decode: func(answer []byte) (list []perigee.Model, next string, err error) {
				found, err := dialect.DecodeTags(answer)
				for i := range found {
					list = append(list, found[i].Model(o.most))
				}
				o.addListed(found)
				return list, "", err
			},
			describe: o.describeAll,
		},
		embed: &embedding{
			dialect: dialect.Dialect,
			target:  func(base string, _ *perigee.EmbedRequest) string { return base + ollamaEmbed },
			encode: func(model string, inputs []perigee.EmbedInput) ([]byte, []perigee.Note, error) {
				return dialect.EncodeEmbed(dialect.Envelope{Model: model, KeepAlive: o.keep.String()}, inputs)
			},
			decode: dialect.DecodeEmbeddings,
		},
		hint:        func(e *perigee.Error, model string) string { return ollamaHint(e, model, u) },
		probe:       probeOllama,
		decodeError: dialect.DecodeError,
		checkAnswer: dialect.CheckAnswer,
	}
}

const (
	ollamaChat  = "/api/chat"
	ollamaEmbed = "/api/embed"
	ollamaShow  = "/api/show"
	ollamaTasks = "/api/ps"
)

// ollamaHint returns the command that helps against an error.
func ollamaHint(e *perigee.Error, model string, u config.Upstream) string {
	switch {
	case e.Class == perigee.ClassNotFound && model != "":
		if strings.ContainsAny(model, " \t\r\n\"'`$;&|<>(){}\\*?") {
			return "ollama list shows the models of the server"
		}
		return "ollama pull " + perigee.Clip(model, maxNamed) + " downloads it"
	case e.Class == perigee.ClassUnavailable && wire.NeverConnected(e.Cause):
		if cmp.Or(u.URL, defaultOllama) == defaultOllama {
			e.Fix = "ollama serve"
		}
		return "is Ollama running? ollama serve starts it; otherwise check url of the upstream"
	}
	return ""
}

var defaultOllama = config.KindOf(config.KindOllama).URL

// probeOllama returns an error if no model has been downloaded.
func probeOllama(_ context.Context, u *Upstream, list []perigee.Model) error {
	if len(list) > 0 {
		return nil
	}
	e := &perigee.Error{Class: perigee.ClassNotFound, Upstream: u.opts.Name, Message: "the server has no model yet", Fix: "ollama pull qwen3:8b"}
	if u.opts.URL != defaultOllama {
		e.Fix = "OLLAMA_HOST=" + u.opts.URL + " " + e.Fix
	}
	return e
}

// An ollamaServer is a server of Ollama, with what is known about its models.
type ollamaServer struct {
	most    int64         // the configured limit of the context
	keep    time.Duration // how long models stay loaded after a call
	schemas *schema.Cache

	mu     sync.Mutex
	models map[string]*ollamaModel // by name
	late   time.Time               // when the list of loaded models last did not come in time
}

// An ollamaModel is what is known about a model. The server's mutex guards it.
type ollamaModel struct {
	dialect.Description
	described time.Time
	failed    time.Time // when the server last did not describe it
	silent    bool      // a request to think was refused
	noLevels  bool      // thinking can only be turned on and off
	loaded    int64     // how many tokens the model is loaded with; 0 if it is not, as far as is known
	used      time.Time
}

const (
	// describedFor is how long a description of a model is used. The name may be given to another model.
	describedFor = 10 * time.Minute
	// maxDescribed bounds the number of descriptions. Names that differ in their case alone are the
	// same model, and have one each.
	maxDescribed = 10_000
	// describers is how many models of a list are described at once.
	describers = 8
	// maxAskTime is how long a call waits for a description, and for the list of loaded models. The
	// server has both at once, also while it loads a model.
	maxAskTime = 3 * time.Second
	// askAgain is when the server is asked again if it did not answer.
	askAgain = time.Minute
)

var errAskTime error = timeout("no answer about a model within " + maxAskTime.String())

// known returns a copy of what is known about a model.
func (o *ollamaServer) known(model string) ollamaModel {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.models[dialect.Bare(model)]; m != nil {
		return *m
	}
	return ollamaModel{}
}

// update changes what is known about a model.
func (o *ollamaServer) update(model string, change func(m *ollamaModel)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	model = dialect.Bare(model)
	m := o.models[model]
	if m == nil {
		if o.models == nil || len(o.models) >= maxDescribed {
			o.models = map[string]*ollamaModel{}
		}
		m = &ollamaModel{}
		o.models[model] = m
	}
	change(m)
}

// addListed takes over the descriptions in a list. One that is incomplete counts until the server
// describes the model.
func (o *ollamaServer) addListed(list []dialect.Listed) {
	for _, listed := range list {
		if listed.Context > 0 || listed.Capabilities != nil {
			o.update(listed.Name, func(m *ollamaModel) {
				if m.described.IsZero() || listed.Context > 0 && listed.Capabilities != nil {
					m.Description = listed.Description
				}
			})
		}
	}
}

// describe returns what is known about a model, which the server describes if that was too long ago.
// A server without descriptions has models about which nothing is known. After an error, the server
// is not asked about the model for askAgain.
func (o *ollamaServer) describe(ctx context.Context, u *Upstream, model string) (ollamaModel, error) {
	now := u.opts.Now()
	m := o.known(model)
	if !m.described.IsZero() && now.Sub(m.described) < describedFor || !m.failed.IsZero() && now.Sub(m.failed) < askAgain {
		return m, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, maxAskTime, errAskTime)
	defer cancel()
	raw, err := u.post(limited, u.opts.URL+ollamaShow, model, dialect.EncodeShow(model))
	var found dialect.Description
	switch {
	case errors.Is(err, errNoMethod):
		err = nil
	case err == nil:
		if found, err = dialect.DecodeShow(raw); err != nil {
			err = u.malformed(model, err)
		}
	}
	if err != nil {
		if ctx.Err() == nil && !decides(err) {
			o.update(model, func(m *ollamaModel) { m.failed = now })
		}
		return m, err
	}
	o.update(model, func(m *ollamaModel) { m.Description, m.described = found, now })
	return o.known(model), nil
}

// decides reports whether calls of a model get the same error as a question about it.
func decides(err error) bool {
	e := perigee.AsError(err)
	return e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError || wire.NeverConnected(e.Cause)
}

// describeAll completes a list of models, as far as the server describes them before ctx ends: those
// first that it has never described, or not for the longest time. Newer servers have all of it in
// the list.
func (o *ollamaServer) describeAll(ctx context.Context, u *Upstream, list []perigee.Model) error {
	var open []*perigee.Model
	last := map[string]time.Time{}
	for i := range list {
		switch m := &list[i]; {
		case m.Context > 0 && m.Tools != nil:
			o.update(m.ID, func(m *ollamaModel) { m.described = u.opts.Now() })
		case u.isOffered(m.ID):
			open, last[m.ID] = append(open, m), o.known(m.ID).described
		}
	}
	slices.SortStableFunc(open, func(a, b *perigee.Model) int { return last[a.ID].Compare(last[b.ID]) })
	var wait sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range min(describers, len(open)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(open)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if _, err := o.describe(ctx, u, open[i].ID); err != nil {
					failed.Store(&err) // the other models may have a description
				}
			}
		})
	}
	wait.Wait()
	for _, m := range open {
		listed := dialect.Listed{Name: m.ID, Description: o.known(m.ID).Description}
		more := listed.Model(o.most)
		describe(m, &more)
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// limit returns the most tokens that a model is loaded with.
func (o *ollamaServer) limit(m *ollamaModel) int64 {
	if m.Context > 0 {
		return min(o.most, m.Context)
	}
	return o.most
}

// prepare asks the server about a model and how many tokens it is loaded with. It refuses a prompt
// that does not fit, which takes no call for a model that is known.
func (o *ollamaServer) prepare(ctx context.Context, u *Upstream, req *perigee.Request) error {
	if err := adapt.RefuseImages(req, models.GPTOSS); err != nil { // as for all models of text
		return err
	}
	prompt, err := promptOf(req)
	if err != nil {
		return err
	}
	m, err := o.describe(ctx, u, req.Model)
	if err != nil {
		if ctx.Err() != nil || decides(err) {
			return err
		}
		u.opts.Logger.Warn("the server does not describe the model", "upstream", u.opts.Name, "model", req.Model, "error", err)
	}
	if tokens, limit := prompt.EstimateTokens(), o.limit(&m); tokens > limit {
		e := dialect.TooLong(tokens, limit)
		e.Hint = "shorten the conversation, or use a model with a larger context"
		return e
	}
	loaded, now := o.loaded(ctx, u, req.Model), u.opts.Now()
	o.update(req.Model, func(m *ollamaModel) {
		if now.Sub(m.used) > o.keep {
			m.loaded = 0 // the server has unloaded it since
		}
		if m.loaded, m.used = max(m.loaded, loaded), now; m.Context > 0 {
			m.loaded = min(m.loaded, m.Context)
		}
	})
	return nil
}

// loaded returns how many tokens a model is loaded with; 0 if it is not, or if the server does not
// answer. After a time without an answer, the server is not asked for askAgain.
func (o *ollamaServer) loaded(ctx context.Context, u *Upstream, model string) int64 {
	now := u.opts.Now()
	o.mu.Lock()
	late := !o.late.IsZero() && now.Sub(o.late) < askAgain
	o.mu.Unlock()
	if late {
		return 0
	}
	limited, cancel := context.WithTimeoutCause(ctx, maxAskTime, errAskTime)
	defer cancel()
	raw, err := u.get(limited, u.opts.URL+ollamaTasks)
	if err == nil {
		loaded, _ := dialect.DecodeLoaded(raw, model)
		return loaded
	}
	if limited.Err() != nil && ctx.Err() == nil {
		u.opts.Logger.Warn("the server does not list its loaded models", "upstream", u.opts.Name, "error", err)
		o.mu.Lock()
		o.late = now
		o.mu.Unlock()
	}
	return 0
}

const (
	// contextStep is the unit of the context that is asked for.
	contextStep = 4096
	// usualOutput is how many tokens an answer gets if the client sets no limit.
	usualOutput = 8192
	// templateTokens is what the template of the model adds to a prompt.
	templateTokens = 256
)

// need returns how many tokens a request needs. The estimate of its prompt may be too low by an
// eighth.
func (o *ollamaServer) need(p *perigee.Prompt) int64 {
	input := p.EstimateTokens()
	output := int64(usualOutput)
	if limit := p.Generation.MaxOutputTokens; limit != nil && *limit >= 0 {
		output = min(*limit, o.most)
	}
	return input + input/8 + templateTokens + output
}

// grow returns how many tokens a model is loaded with for a request that needs so many, and remembers
// that. It is never less than before, because the server would load the model anew, and then at least
// twice as much.
func (o *ollamaServer) grow(model string, need int64) (context int64) {
	o.update(model, func(m *ollamaModel) {
		limit := o.limit(m)
		context = min((need+contextStep-1)/contextStep*contextStep, limit)
		switch {
		case context <= m.loaded:
			context = m.loaded
		case m.loaded > 0:
			grown := m.loaded
			for grown < context {
				grown *= 2
			}
			context = min(grown, limit)
		}
		m.loaded = context
	})
	return context
}

// message returns the adapted prompt for a model.
func (o *ollamaServer) message(req *perigee.Request, known ollamaModel) (m message, err error) {
	prompt, err := promptOf(req)
	if err != nil {
		return m, err
	}
	return o.sized(req, known, o.need(prompt))
}

// sized returns the adapted prompt for a model that is loaded with at least so many tokens.
func (o *ollamaServer) sized(req *perigee.Request, known ollamaModel, need int64) (m message, err error) {
	prompt, err := promptOf(req)
	if err != nil {
		return m, err
	}
	model := adapt.OllamaModel{Name: req.Model, NoLevels: known.noLevels}
	for capability, has := range map[string]**bool{dialect.CapabilityTools: &model.Tools, dialect.CapabilityVision: &model.Vision,
		dialect.CapabilityThinking: &model.Thinking} {
		if yes, reported := known.Has(capability); reported {
			*has = &yes
		}
	}
	if known.silent {
		model.Thinking = new(false)
	}
	prompt, undo, notes, err := adapt.ForOllama(prompt, model, o.schemas)
	if err != nil {
		return m, err
	}
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	envelope := dialect.Envelope{Model: req.Model, Stream: req.Stream, Context: o.grow(req.Model, need), KeepAlive: o.keep.String()}
	pieces, buffer := dialect.EncodePieces(prompt, envelope, wire.Buffer)
	m = newMessage(req, pieces, buffer)
	m.undo, m.notes = undo, notes
	return m, nil
}

// repair encodes a request anew that was refused because its prompt is longer than the estimate, or
// because the model does not think, or takes no levels of thinking. The server's list of capabilities
// does not have the latter.
func (o *ollamaServer) repair(req *perigee.Request, _ *message, refused error) (m message, ok bool) {
	e := perigee.AsError(refused)
	prompt, err := req.Prompt()
	if e.Class != perigee.ClassInvalid || err != nil {
		return m, false
	}
	known, need := o.known(req.Model), o.need(prompt)
	switch long := providererr.AsTooLong(e); {
	case long != nil:
		if known.loaded >= o.limit(&known) || long.Tokens > o.limit(&known) {
			return m, false
		}
		need = max(need-prompt.EstimateTokens()+long.Tokens, known.loaded+1)
		if long.Tokens == 0 {
			need = o.limit(&known)
		}
	case strings.Contains(e.Message, "does not support thinking"):
		known.silent = true
	case strings.Contains(e.Message, "think value"):
		known.noLevels = true
	default:
		return m, false
	}
	if m, err = o.sized(req, known, need); err != nil {
		return m, false
	}
	m.anew, m.learns = true, func() {
		o.update(req.Model, func(m *ollamaModel) { m.silent, m.noLevels = known.silent, known.noLevels })
	}
	return m, true
}
