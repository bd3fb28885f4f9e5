package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/schema"
	dialect "perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
	"perigee/internal/store/config"
)

// newOpenAI returns a provider with OpenAI's APIs: OpenAI itself, or one of the many servers that
// have them.
func newOpenAI(u config.Upstream) *Provider {
	p := &openAIServer{profile: profileOf(u), schemas: schema.NewCache(schema.CacheBytes)}
	chats, responds := p.chatWire(), p.responsesWire()
	wire := func(req *perigee.Request) *Wire {
		switch {
		case req.Dialect == perigee.DialectOpenAIImages:
			return openAIImages
		case u.API == "responses", u.API != "chat" && p.both && req.Dialect != perigee.DialectOpenAIChat:
			return responds
		}
		return chats
	}
	return &Provider{
		pathInURL: true,
		authorize: authorization(u.Auth),
		wire:      wire,
		raw: func(base string, r *perigee.RawRequest) string {
			via := wire(&perigee.Request{Origin: r.Origin})
			switch {
			case r.Operation == perigee.OperationEmbed:
				return openAIEmbedding.target(base, nil)
			case r.Operation == perigee.OperationCount && via.count != nil:
				return via.count.target(base, r.Model)
			}
			return via.target(base, r.Model, r.Stream)
		},
		embed:     openAIEmbedding,
		responses: responsesPath + "/",
		models:    p.listing(),
		reasoning: func(req *perigee.Request) perigee.Reasoning {
			r := perigee.Reasoning{Provider: ownReasoning(u), Form: perigee.ReasoningInBlocks}
			if p.accepts(p.rule(req.Model)).Reasoning && wire(req) == chats {
				r.Form = perigee.ReasoningInText
			}
			return r
		},
		probe:         p.probe,
		readsURLs:     true,
		clientHeaders: []string{"Openai-"},
		decodeError:   dialect.DecodeError,
		checkAnswer:   dialect.CheckAnswer,
	}
}

// ownReasoning returns the provider of reasoning that only this upstream can read.
func ownReasoning(u config.Upstream) string { return "upstream " + u.Name }

// An openAIServer is a server with OpenAI's APIs, and what perigee has learned about its models.
type openAIServer struct {
	*profile
	schemas *schema.Cache
	learned sync.Map // the historyRule of models that differ from the profile, by name
	newer   sync.Map // the names of models that take max_completion_tokens only
}

// A historyRule is which messages of the model have reasoning_content in the history.
type historyRule int

const (
	historyOfProfile historyRule = iota
	historyWithout               // none
	historyComplete              // all, also those without calls
)

// rule returns the rule of a model.
func (p *openAIServer) rule(model string) historyRule {
	rule, _ := p.learned.Load(model)
	known, _ := rule.(historyRule)
	return known
}

// formOf returns the form of requests for a model.
func (p *openAIServer) formOf(model string) chat.Form {
	form := p.form
	if _, newer := p.newer.Load(model); newer {
		form.MaxTokens = ""
	}
	return form
}

// accepts returns what the server accepts for a model with a rule.
func (p *openAIServer) accepts(rule historyRule) *adapt.Server {
	server := p.chat
	switch rule {
	case historyOfProfile:
		return &p.chat
	case historyWithout:
		server.Reasoning, server.KeepReasoning = false, false
	case historyComplete:
		server.KeepReasoning, server.CompleteReasoning = true, true
	}
	return &server
}

// history returns how the server takes reasoning in the messages of a model with a rule.
func (p *openAIServer) history(rule historyRule) chat.History {
	complete := rule == historyComplete
	return chat.History{Form: p.form.Reasoning, Keep: p.chat.KeepReasoning || complete, Complete: complete,
		Refused: rule == historyWithout || p.silent}
}

// authorization returns the function that adds a key in one of the ways that auth names.
func authorization(auth string) func(http.Header, perigee.Secret) {
	switch auth {
	case "api-key", "x-api-key":
		return func(h http.Header, key perigee.Secret) { h.Set(auth, key.Reveal()) }
	case "none":
		return func(http.Header, perigee.Secret) {}
	}
	return func(h http.Header, key perigee.Secret) { h.Set("Authorization", "Bearer "+key.Reveal()) }
}

// openAIModels returns the URL of a page of the list of models. The name of a page is its address.
func openAIModels(base, page string) string {
	list := base + "/models"
	next, err := url.Parse(page)
	if page == "" || err != nil {
		return list
	}
	return list + "?" + next.RawQuery // on the same server, wherever the address points
}

// listing returns the method that lists the models of the server.
func (p *openAIServer) listing() *listing {
	l := &listing{target: openAIModels, decode: func(answer []byte) ([]perigee.Model, string, error) {
		list, next, err := dialect.DecodeModels(answer)
		for i := range list {
			m := &list[i]
			m.Thinking = m.Thinking || p.chat.Fixed != nil && p.chat.Fixed(m.ID)
		}
		return list, next, err
	}}
	root := func(base string) string { return strings.TrimSuffix(base, "/v1") }
	switch p.name {
	case "lmstudio":
		l.details = func(base string) string { return root(base) + "/api/v1/models" }
		l.complete = completeNative
	case "llamacpp":
		l.details = func(base string) string { return root(base) + "/props" }
		l.complete = func(list []perigee.Model, answer []byte) error {
			loaded, err := dialect.DecodeProperties(answer)
			if err == nil && len(list) == 1 { // otherwise the model that they are about is unknown
				describe(&list[0], &loaded)
			}
			return err
		}
	}
	return l
}

// probe asks for a description of the key where the list of models does not need a valid one.
func (p *openAIServer) probe(ctx context.Context, u *Upstream, _ []perigee.Model) error {
	if p.keyInfo == "" {
		return nil
	}
	_, err := u.get(ctx, u.opts.URL+p.keyInfo)
	if e := perigee.AsError(err); e != nil && (e.Class == perigee.ClassUnauthenticated || e.Class == perigee.ClassForbidden) {
		return err
	}
	return nil // the server may be another one that answers like it
}

// completeNative adds LM Studio's own descriptions to the models of the list.
func completeNative(list []perigee.Model, answer []byte) error {
	native, err := dialect.DecodeNativeModels(answer)
	known := map[string]*perigee.Model{}
	for i := range native {
		if m := &native[i]; known[m.ID] == nil { // a loaded instance is before its model
			known[m.ID] = m
		}
	}
	for i := range list {
		if m := known[list[i].ID]; m != nil {
			describe(&list[i], m)
		}
	}
	return err
}

// describe adds to a model what another description of it has. Its limit is the more precise one.
func describe(m, more *perigee.Model) {
	m.DisplayName, m.Context = cmp.Or(m.DisplayName, more.DisplayName), cmp.Or(more.Context, m.Context)
	m.Vision, m.Tools = cmp.Or(m.Vision, more.Vision), cmp.Or(m.Tools, more.Tools)
	m.Thinking = m.Thinking || more.Thinking
}

// chatWire returns the method of the Chat Completions API.
func (p *openAIServer) chatWire() *Wire {
	w := &Wire{
		dialect: perigee.DialectOpenAIChat,
		raw:     true,
		stops:   p.chat.Stops,
		target:  func(base, _ string, _ bool) string { return base + "/chat/completions" },
		message: p.chatMessage,
		decoder: func(bool) decoder { return new(chat.Decoder) },
		repair:  p.repairChat,
	}
	if p.counts != "" {
		w.count = &counting{
			target:  func(base, _ string) string { return base + p.counts },
			message: p.chatCount,
			decode:  responses.DecodeTokenCount,
		}
	}
	return w
}

// chatMessage returns the client's own bytes if they are in this dialect, and the adapted prompt
// otherwise.
func (p *openAIServer) chatMessage(req *perigee.Request) (message, error) {
	return p.chatBody(req, p.rule(req.Model))
}

// chatBody returns the message for a model with a rule.
func (p *openAIServer) chatBody(req *perigee.Request, rule historyRule) (m message, err error) {
	if req.Verbatim(perigee.DialectOpenAIChat) {
		return p.ownChat(req, rule)
	}
	prompt, undo, notes, err := p.adapted(req, rule)
	if err != nil {
		return m, err
	}
	envelope := chat.Envelope{Model: req.Model, Stream: req.Stream, Form: p.formOf(req.Model), Session: req.Client.Session}
	pieces, buffer := chat.EncodePieces(prompt, envelope, wire.Buffer)
	m = newMessage(req, pieces, buffer)
	m.undo, m.notes, m.history = undo, notes, rule
	return m, nil
}

// adapted returns the prompt of a request as the Chat Completions API of the server takes it.
func (p *openAIServer) adapted(req *perigee.Request, rule historyRule) (prompt *perigee.Prompt, undo adapt.Undo, notes []perigee.Note, err error) {
	prompt, err = promptOf(req)
	if err != nil {
		return nil, undo, nil, err
	}
	prompt, undo, notes = adapt.ForOpenAI(prompt, p.accepts(rule), req.Model, p.schemas)
	return prompt, undo, notes, req.RefuseIfStrict(notes)
}

// chatCount returns the body of a request that counts the tokens of a prompt. A call has the same one.
func (p *openAIServer) chatCount(req *perigee.Request) (m message, err error) {
	prompt, _, _, err := p.adapted(req, p.rule(req.Model))
	if err != nil {
		return m, err
	}
	return message{body: [][]byte{chat.EncodeRequest(prompt, chat.Envelope{Model: req.Model, Form: p.formOf(req.Model)})}}, nil
}

// The paths of the Responses API.
const (
	responsesPath = "/responses"
	countPath     = responsesPath + "/input_tokens"
)

// responsesWire returns the method of the Responses API.
func (p *openAIServer) responsesWire() *Wire {
	server := p.chat
	server.Options = []string{adapt.OptionParallel, adapt.OptionVerbosity, adapt.OptionTier, adapt.OptionLogprobs}
	server.Stops, server.MinOutput, server.EffortAlone, server.Sounds = 0, minResponse, nil, false
	server.Media, server.Reasoning, server.KeepReasoning, server.Sealed = true, false, false, true
	server.Builtins = []string{perigee.BuiltinSearch, perigee.BuiltinCode}
	adapted := func(req *perigee.Request, encode func(*perigee.Prompt) message) (m message, err error) {
		if req.Verbatim(perigee.DialectOpenAIResponses) {
			return ownResponse(req, &server)
		}
		prompt, err := promptOf(req)
		if err != nil {
			return m, err
		}
		prompt, undo, notes := adapt.ForOpenAI(prompt, &server, req.Model, p.schemas)
		if err := req.RefuseIfStrict(notes); err != nil {
			return m, err
		}
		m = encode(prompt)
		m.undo, m.notes = undo, notes
		return m, nil
	}
	return &Wire{
		dialect: perigee.DialectOpenAIResponses,
		raw:     true,
		stops:   server.Stops,
		target:  func(base, _ string, _ bool) string { return base + responsesPath },
		message: func(req *perigee.Request) (message, error) {
			return adapted(req, func(prompt *perigee.Prompt) message {
				envelope := responses.Envelope{Model: req.Model, Stream: req.Stream, CacheKey: req.Client.Session}
				pieces, buffer := responses.EncodePieces(prompt, envelope, wire.Buffer)
				return newMessage(req, pieces, buffer)
			})
		},
		decoder: func(streamed bool) decoder { return responses.NewDecoder(streamed) },
		count: &counting{
			target: func(base, _ string) string { return base + countPath },
			message: func(req *perigee.Request) (message, error) {
				return adapted(req, func(prompt *perigee.Prompt) message {
					return message{body: [][]byte{responses.EncodeCountRequest(prompt, req.Model)}}
				})
			},
			decode: responses.DecodeTokenCount,
		},
	}
}

// minResponse is the smallest limit of an answer that the Responses API takes.
const minResponse = 16

// ownResponse returns the client's own bytes with the name of the routed model, with the thinking
// that this name asks for, and without the items that the provider cannot read.
func ownResponse(req *perigee.Request, server *adapt.Server) (m message, err error) {
	body, notes := ownItems(req)
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	m.body, m.notes = [][]byte{body}, notes
	m.edits = []*change{{name: "model", value: rawjson.AppendString(nil, req.Model), quiet: true}}
	if req.Thinking == nil {
		return m, nil
	}
	fitted, notes, err := fitThinking(req, server)
	if effort := responses.EncodeEffort(fitted); effort != nil {
		m.edits = append(m.edits, &change{name: "reasoning", quiet: true,
			inside: []*change{{name: "effort", value: effort, quiet: true}}})
	}
	m.notes = append(m.notes, notes...)
	return m, err
}

// bareItems are the subjects of notes on items that are left out, by their type.
var bareItems = map[string]string{"reasoning": "input[reasoning] without its content", "item_reference": "input[item_reference]"}

// ownItems returns the body of a request without the items of its input that the provider cannot
// read: those that only name something stored, if the provider is to store nothing, and reasoning that
// is known to be another provider's.
func ownItems(req *perigee.Request) (rest []byte, notes []perigee.Note) {
	if req.PlainItems {
		return req.Body, nil
	}
	items := responses.FindOwnItems(rawjson.Index(req.Index), req.Body)
	var sealed []string
	for i := range items.List {
		if content, own := items.List[i].Sealed(); content != "" && !own {
			sealed = append(sealed, content)
		}
	}
	var foreign map[string]bool
	if req.Recall != nil && len(sealed) > 0 {
		foreign = req.Recall.Foreign(sealed)
	}
	var dropped perigee.Notes
	others := false
	rest = items.Without(func(item *responses.OwnItem) bool {
		if content, own := item.Sealed(); own || foreign[content] {
			others = true
			return true
		}
		if !items.Stateless || !item.IsBare() {
			return false
		}
		dropped.Dropped(bareItems[item.Kind])
		return true
	})
	if notes = dropped.List(); others {
		notes = append(notes, perigee.OtherReasoning)
	}
	return rest, notes
}

// fitThinking returns the thinking that the name of the model asks for, as the model has it, with
// notes about the difference.
func fitThinking(req *perigee.Request, server *adapt.Server) (t *perigee.Thinking, list []perigee.Note, err error) {
	prompt, err := req.Prompt()
	if err != nil {
		return nil, nil, err
	}
	fitted, _, notes := adapt.ForOpenAI(prompt, server, req.Model, nil)
	for _, n := range notes {
		if strings.Contains(n.Subject, "effort") || strings.HasPrefix(n.Subject, "thinking ") || n.Subject == "thinking" {
			list = append(list, n)
		}
	}
	return fitted.Generation.Thinking, list, nil
}

// ownChat returns the client's own bytes with the name of the routed model, with the usage of
// streams, with the thinking that the name of the model asks for, and with the reasoning that the
// server takes.
func (p *openAIServer) ownChat(req *perigee.Request, rule historyRule) (m message, err error) {
	var id func(string) string
	if p.chat.LimitsIDs() {
		id = p.chat.CallID
	}
	edits, notes := chat.Rewrite(rawjson.Index(req.Index), req.Body, p.history(rule), req.Recall, id)
	if err := req.RefuseIfStrict(notes); err != nil {
		return m, err
	}
	m.body, m.rewrites, m.notes, m.history = [][]byte{req.Body}, edits, notes, rule
	m.edits = []*change{{name: "model", value: rawjson.AppendString(nil, req.Model), quiet: true}}
	if chat.Streams(rawjson.Index(req.Index).Value(req.Body)) != req.Stream { // as in extra_body
		m.edits = append(m.edits, &change{name: "stream", value: strconv.AppendBool(nil, req.Stream), quiet: true})
	}
	if req.Stream {
		if !chat.AsksForUsage(rawjson.Index(req.Index).Value(req.Body)) {
			m.hides = chat.IsUsageChunk
		}
		m.edits = append(m.edits, &change{name: "stream_options", quiet: true,
			inside: []*change{{name: "include_usage", value: json.RawMessage("true"), quiet: true}}})
	}
	if req.Thinking == nil {
		return m, nil
	}
	fitted, notes, err := fitThinking(req, p.accepts(rule))
	for name, value := range chat.ThinkingMembers(fitted, p.form) {
		m.edits = append(m.edits, &change{name: name, value: value, quiet: true})
	}
	m.notes = append(m.notes, notes...)
	return m, err
}

// repairChat writes a request anew that a model refused because of the name of its limit, which newer
// models of OpenAI behind other servers do, or because of the thinking in its history. Some
// models of DeepSeek require it, in messages with calls or in all, and the oldest refuse it. Which
// ones do is learned once such a request is accepted. A value of the wrong type is the client's own.
func (p *openAIServer) repairChat(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
	about := func(word string) bool { return refusedFor(refused, word) }
	if p.form.MaxTokens == "max_tokens" && about("'max_tokens'") && about("'max_completion_tokens'") && !req.Verbatim(perigee.DialectOpenAIChat) {
		p.newer.Store(req.Model, true)
		m, err := p.chatBody(req, p.rule(req.Model))
		m.anew = true
		return m, err == nil
	}
	if !p.chat.Reasoning || !about("reasoning_content") || about("invalid type") {
		return m, false
	}
	rule := historyWithout
	if about("missing") || about("passed back") || about("required") {
		p.learned.CompareAndDelete(req.Model, historyWithout)
		if rule = historyComplete; sent.history == historyWithout {
			rule = historyOfProfile
		}
	}
	if rule == sent.history || rule == historyComplete && p.form.Reasoning != chat.ReasoningContent {
		return m, false
	}
	m, err := p.chatBody(req, rule)
	m.anew, m.learns = true, func() { p.learned.Store(req.Model, rule) }
	return m, err == nil
}
