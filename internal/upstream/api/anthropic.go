package api

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
	dialect "perigee/internal/dialect/anthropic"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// anthropicVersion is the version of the Messages API that translated requests are written in.
const anthropicVersion = "2023-06-01"

// Anthropic returns the provider of the Messages API, at Anthropic or at a compatible server.
func Anthropic(u config.Upstream) *Provider {
	a := newMessages(u)
	w := a.wire()
	w.target = func(base, _ string, _ bool) string { return base + messagesPath }
	w.count.target = func(base, _ string) string { return base + messagesCountPath }
	return &Provider{
		authorize:     authorization(cmp.Or(u.Auth, "x-api-key")),
		header:        http.Header{"Anthropic-Version": {anthropicVersion}},
		clientHeaders: []string{"Anthropic-"},
		clientQuery:   []string{"beta"}, // with each call of a beta interface of the SDKs
		wire:          func(*perigee.Request) *Wire { return w },
		raw: func(base string, r *perigee.RawRequest) string {
			if r.Operation == perigee.OperationCount {
				return base + messagesCountPath
			}
			return base + messagesPath
		},
		models: &listing{target: func(base, page string) string {
			target := base + "/v1/models?limit=1000"
			if page != "" {
				target += "&after_id=" + url.QueryEscape(page)
			}
			return target
		}, decode: a.models},
		reasoning: func(req *perigee.Request) perigee.Reasoning {
			if family := models.Of(req.Model).Family; family == models.Claude {
				return family.Reasoning()
			}
			return perigee.Reasoning{Provider: ownReasoning(u), Form: perigee.ReasoningInBlocks}
		},
		readsURLs:     true,
		barelyLimited: true,
		decodeError:   dialect.DecodeError,
		checkAnswer:   dialect.CheckAnswer,
	}
}

const (
	messagesPath      = "/v1/messages"
	messagesCountPath = messagesPath + "/count_tokens"
)

// newMessages returns a provider with the settings of an upstream.
func newMessages(u config.Upstream) *anthropicProvider {
	return &anthropicProvider{cache: u.Cache != "off" && !configures(u, "cache_control"), limit: limitOf(u), schemas: schema.NewCache(schema.CacheBytes)}
}

// wire returns the API method for messages, without its URLs.
func (a *anthropicProvider) wire() *Wire {
	return &Wire{
		dialect: perigee.DialectAnthropic,
		raw:     true,
		stops:   math.MaxInt,
		message: func(req *perigee.Request) (message, error) {
			return a.message(req, func(prompt *perigee.Prompt) message {
				pieces, buffer := dialect.EncodePieces(prompt, a.envelope(req), wire.Buffer)
				return newMessage(req, pieces, buffer)
			})
		},
		decoder: func(bool) decoder { return new(dialect.Decoder) },
		repair:  a.repair,
		count: &counting{
			message: func(req *perigee.Request) (message, error) {
				return a.message(req, func(prompt *perigee.Prompt) message {
					return message{body: [][]byte{dialect.EncodeCountRequest(prompt, req.Model)}}
				})
			},
			decode: dialect.DecodeTokenCount,
		},
	}
}

// envelope returns the members of a request that are not in its prompt.
func (a *anthropicProvider) envelope(req *perigee.Request) dialect.Envelope {
	return dialect.Envelope{Model: req.Model, Version: a.version, Stream: req.Stream}
}

// naming returns the changes after which a client's body names the model as the server wants it.
func (a *anthropicProvider) naming(model string) []*change {
	if a.version == "" {
		return []*change{{name: "model", value: rawjson.AppendString(nil, model), quiet: true}}
	}
	return []*change{{name: "model", drop: true, quiet: true},
		{name: "anthropic_version", value: rawjson.AppendString(nil, a.version), keep: true, quiet: true}}
}

// An anthropicProvider has the settings of one upstream, and the rules of its models.
type anthropicProvider struct {
	version string // of the API, where bodies have it in place of the model
	cache   bool   // add a mark for the prompt cache to translated requests
	limit   limitRule
	schemas *schema.Cache

	mu    sync.Mutex
	rules map[string]models.MessagesSpec // from the provider's list, and from its errors
}

// maxRules bounds how many models are remembered with their rules.
const maxRules = 1024

// spec returns the rules of a model.
func (a *anthropicProvider) spec(model string) models.MessagesSpec {
	a.mu.Lock()
	defer a.mu.Unlock()
	if spec, ok := a.rules[model]; ok {
		return spec
	}
	return models.MessagesOf(model)
}

// learn remembers the rules of a model.
func (a *anthropicProvider) learn(model string, spec models.MessagesSpec) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rules == nil || len(a.rules) >= maxRules {
		a.rules = map[string]models.MessagesSpec{}
	}
	a.rules[model] = spec
}

// models reads a page of the list of models, and remembers their rules.
func (a *anthropicProvider) models(answer []byte) (list []perigee.Model, next string, err error) {
	list, next, err = dialect.DecodeModels(answer)
	for i := range list {
		m := &list[i]
		if m.Output > 0 || m.ThinkingTypes != nil || m.Efforts != nil {
			a.learn(m.ID, models.MessagesOf(m.ID).With(m.Output, m.ThinkingTypes, m.Efforts))
		}
	}
	return list, next, err
}

// message returns the client's own bytes if possible, and what encode makes of the adapted prompt
// otherwise.
func (a *anthropicProvider) message(req *perigee.Request, encode func(*perigee.Prompt) message) (m message, err error) {
	if req.Verbatim(perigee.DialectAnthropic) {
		return a.ownBytes(req)
	}
	return a.translated(req, a.spec(req.Model), encode)
}

// translated returns what encode makes of the prompt, adapted to the rules of the model.
func (a *anthropicProvider) translated(req *perigee.Request, spec models.MessagesSpec, encode func(*perigee.Prompt) message) (m message, err error) {
	if err := adapt.RefuseImages(req, models.Claude); err != nil {
		return m, err
	}
	prompt, err := promptOf(req)
	if err != nil {
		return m, err
	}
	// A client of this dialect sets the marks of the cache itself.
	cache := a.cache && req.Dialect != perigee.DialectAnthropic
	own := prompt.Generation.MaxOutputTokens
	prompt, undo, notes := adapt.ForAnthropic(a.limit.apply(prompt, spec.Output), spec, cache, a.schemas)
	switch {
	case a.limit.drop && own == nil:
		prompt.Generation.MaxOutputTokens = nil
		notes = slices.DeleteFunc(notes, func(n perigee.Note) bool {
			return n.Action == perigee.NoteAdded && strings.HasPrefix(n.Subject, "max_tokens ")
		})
	case a.limit.always && own != nil && *own != a.limit.tokens:
		notes = append(notes, perigee.Note{Action: perigee.NoteMapped, Subject: "max_tokens: as the configuration sets it"})
	}
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	m = encode(prompt)
	m.undo, m.notes = undo, notes
	return m, nil
}

// A limitRule is the configured limit of output tokens. It is applied before the thinking budget is
// chosen, which has to be below the limit.
type limitRule struct {
	tokens int64 // 0 if the configuration sets none
	always bool  // in place of the client's own limit, too
	drop   bool  // requests have none
}

func limitOf(u config.Upstream) (r limitRule) {
	value, always := u.Set["max_tokens"]
	if !always {
		value = u.Default["max_tokens"]
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n > 0 {
		r = limitRule{tokens: n, always: always}
	}
	r.drop = slices.Contains(u.Drop, "max_tokens")
	return r
}

// apply returns the prompt with the configured limit, or with most if it is lower: the limit of the
// model, or 0 if that is unknown.
func (r limitRule) apply(p *perigee.Prompt, most int64) *perigee.Prompt {
	if r.tokens == 0 || p.Generation.MaxOutputTokens != nil && !r.always {
		return p
	}
	limit := r.tokens
	if most > 0 {
		limit = min(limit, most)
	}
	e := p.Edit()
	e.Generation.MaxOutputTokens = &limit
	return e.Prompt
}

// configures reports whether the configuration sets or drops a member itself, which perigee then
// does not add.
func configures(u config.Upstream, member string) bool {
	return u.Set[member] != "" || u.Default[member] != "" || slices.Contains(u.Drop, member)
}

// ownBytes returns the client's bytes with the name of the routed model, with the thinking that this
// name asks for, and without the thinking of other providers.
func (a *anthropicProvider) ownBytes(req *perigee.Request) (m message, err error) {
	body, index := req.Body, rawjson.Index(req.Index)
	if req.Thinking != nil {
		if body, m.notes, err = a.withThinking(req); err != nil {
			return m, err
		}
		index = nil
	}
	edits, found := dialect.RewriteThinking(index, body, req.Recall, a.spec(req.Model).Default)
	if found.Dropped {
		m.notes = append(m.notes, perigee.OtherReasoning)
	}
	m.edits = a.naming(req.Model)
	if found.Lost {
		m.notes = append(m.notes, perigee.Note{Action: perigee.NoteDropped, Subject: lostThoughts})
		m.edits = append(m.edits, &change{name: "thinking", drop: true, quiet: true})
	}
	if err := req.RefuseIfStrict(m.notes); err != nil {
		return m, err
	}
	m.body, m.rewrites = [][]byte{body}, edits
	return m, nil
}

// withThinking returns the body with the thinking that the name of the model asks for, and notes.
func (a *anthropicProvider) withThinking(req *perigee.Request) ([]byte, []perigee.Note, error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	thinking, notes := adapt.MessagesThinking(prompt, a.spec(req.Model))
	set := Members{Set: map[string]json.RawMessage{}}
	for path, value := range dialect.ThinkingMembers(thinking) {
		if value == nil {
			set.Drop = append(set.Drop, path)
		} else {
			set.Set[path] = value
		}
	}
	e := memberEditor{body: req.Body}
	e.object(rawjson.Index(req.Index).Value(req.Body), set.changes(false))
	return rawjson.Splice(req.Body, e.edits...), notes, nil
}

// repair encodes a translated request anew that the provider refused for a rule of the model that was
// not known.
func (a *anthropicProvider) repair(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
	e := perigee.AsError(refused)
	if e.Class != perigee.ClassInvalid || e.Status != http.StatusBadRequest {
		return m, false
	}
	if strings.Contains(e.Message, "blocks in the latest assistant message cannot be modified") {
		return a.closeRound(req, sent)
	}
	if req.Verbatim(perigee.DialectAnthropic) {
		return a.repairOwn(req, sent, e)
	}
	spec, lasting := correct(a.spec(req.Model), e.Message)
	if spec == nil {
		return m, false
	}
	m, err := a.translated(req, *spec, func(prompt *perigee.Prompt) message {
		return message{body: [][]byte{dialect.EncodeRequest(prompt, a.envelope(req))}}
	})
	if err != nil {
		return m, false
	}
	if m.anew = true; lasting {
		m.learns = func() { a.learn(req.Model, *spec) }
	}
	return m, true
}

// lostThoughts is the subject of the note on thinking that was left out in a tool loop that did not
// begin with signed thinking.
const lostThoughts = "thinking in a round of tools whose first thoughts are lost"

// repairOwn leaves thinking out of the client's bytes if the provider refuses it because another
// model began the tool loop. All other errors are the client's.
func (a *anthropicProvider) repairOwn(req *perigee.Request, sent *message, refused *perigee.Error) (m message, ok bool) {
	note := perigee.Note{Action: perigee.NoteDropped, Subject: lostThoughts}
	if !strings.Contains(refused.Message, "must start with a thinking block") || req.RefuseIfStrict([]perigee.Note{note}) != nil {
		return m, false
	}
	body := slices.Concat(sent.body...)
	e := memberEditor{body: body}
	e.object(rawjson.NewCursor(body), (&Members{Drop: []string{"thinking"}}).changes(false))
	return message{body: rawjson.Pieces(body, e.edits...), notes: []perigee.Note{note}}, len(e.edits) > 0
}

// closeRound ends the open round of tools in a request that was refused because the thinking of the
// round is lost. Models that always think need it: thinking cannot be left out for them.
func (a *anthropicProvider) closeRound(req *perigee.Request, sent *message) (m message, ok bool) {
	note := perigee.Note{Action: perigee.NoteRepaired, Subject: "round of tools whose first thoughts are lost"}
	if req.RefuseIfStrict([]perigee.Note{note}) != nil {
		return m, false
	}
	if req.Verbatim(perigee.DialectAnthropic) {
		body, ok := dialect.CloseRound(slices.Concat(sent.body...))
		return message{body: [][]byte{body}, notes: []perigee.Note{note}}, ok
	}
	prompt, err := req.Prompt()
	if err != nil {
		return m, false
	}
	if prompt, ok = adapt.CloseRound(prompt); !ok {
		return m, false
	}
	m, err = a.translated(req.WithPrompt(prompt), a.spec(req.Model), func(prompt *perigee.Prompt) message {
		return message{body: [][]byte{dialect.EncodeRequest(prompt, a.envelope(req))}}
	})
	m.notes, m.anew = append(m.notes, note), true
	return m, err == nil
}

// outputLimit matches the error about a limit that is beyond the model's.
var outputLimit = lazyregexp.New(`^max_tokens: \d+ > (\d+)`)

// sampling matches an error about a sampling parameter. The group is not empty if the model does not
// take the parameter at all.
var sampling = lazyregexp.New("(?s)^[`'\"]?(?:temperature|top_p|top_k)\\b.*?(deprecated|support|permitted|allowed|$)")

// content matches an error about a part of the conversation or a tool.
var content = lazyregexp.New(`^(?:tools|messages|system)\.\d`)

// effortLevels matches the list of efforts that a model takes.
var effortLevels = lazyregexp.New(`Supported levels: ([a-z, ]+)`)

// correct returns the rules of a model as the provider's refusal describes them. They are nil if the
// refusal is about something else, or if these are the known rules. lasting is set if they are for all
// requests, and not just for values like the refused ones.
func correct(before models.MessagesSpec, refusal string) (corrected *models.MessagesSpec, lasting bool) {
	spec := before
	lasting = true
	has := func(words ...string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(refusal, word) })
	}
	switch parameter := sampling().FindStringSubmatch(refusal); {
	case content().MatchString(refusal):
		return nil, false
	case strings.HasPrefix(refusal, "cache_control: Extra inputs"):
		spec.BlockCache = true
	case has("thinking.type.enabled", "not supported"):
		spec.Enabled, spec.Adaptive = false, true
	case has("thinking.type.disabled", "not supported"):
		spec.Disabled = false
	case has("adaptive thinking is not supported"):
		spec.Adaptive, spec.Enabled = false, true
	case has("assistant message prefill"):
		spec.Prefill = false
	case has("effort parameter"):
		spec.Efforts = nil
	case has("effort level"):
		spec.Efforts = only(spec.Efforts, submatch(effortLevels(), refusal))
	case parameter != nil:
		spec.Sampling, lasting = false, parameter[1] != ""
	default:
		limit, err := strconv.ParseInt(submatch(outputLimit(), refusal), 10, 64)
		if err != nil {
			return nil, false
		}
		spec.Output = limit
	}
	if reflect.DeepEqual(spec, before) {
		return nil, false
	}
	return &spec, lasting
}

// only returns the efforts that a list of words has.
func only(efforts []string, words string) (list []string) {
	for _, effort := range efforts {
		if slices.Contains(strings.Split(words, ", "), effort) {
			list = append(list, effort)
		}
	}
	return list
}

// submatch returns the first group of a match, or "" if there is none.
func submatch(pattern *regexp.Regexp, text string) string {
	if found := pattern.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
