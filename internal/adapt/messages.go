package adapt

import (
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/schema"
	"perigee/internal/lib/rawjson"
)

// ForAnthropic returns the prompt as the Messages API accepts it from a client of any dialect, the
// Undo for the answer, and notes on changes that may affect the client. If cache is true and the
// prompt has no marks of its own, a mark lets the provider cache the conversation. p is not changed;
// the result shares its unchanged parts with p. schemas may be nil.
//
// Thinking and redacted thinking are sent back only with a signature; package thoughtsig has removed
// the signatures of other providers.
func ForAnthropic(p *perigee.Prompt, model models.MessagesSpec, cache bool, schemas *schema.Cache) (*perigee.Prompt, Undo, []perigee.Note) {
	a := &messagesAdapter{model: model, adapter: adapter{prompt: *p, names: nameMap{NoPunctuation: true},
		spec: models.Spec{ID: model.ID, Family: models.Claude, Output: model.Output}}}
	a.opts.Schemas = schemas
	a.declareTools()
	a.instruct()
	a.converse()
	a.limit()
	a.prefill()
	a.thinking()
	identify(a.prompt.Contents)
	a.sampling()
	a.otherOptions()
	a.answerFormat()
	if cache && !marked(&a.prompt) && a.mark() {
		a.notes.Add(perigee.NoteAdded, "cache_control")
	}
	return &a.prompt, Undo{names: a.names.back, fillers: a.undo.fillers}, a.notes.List()
}

// A messagesAdapter adapts one prompt to the Messages API.
type messagesAdapter struct {
	adapter
	model models.MessagesSpec
}

// mark adds a mark for the provider's cache: for the request, or else on its last block, which is where
// the provider would put it.
func (a *messagesAdapter) mark() bool {
	if !a.model.BlockCache {
		a.prompt.Cache = &perigee.CacheMark{}
		return true
	}
	last := len(a.prompt.Contents) - 1
	if last < 0 {
		return false
	}
	contents := slices.Clone(a.prompt.Contents)
	parts := slices.Clone(contents[last].Parts)
	for i := len(parts) - 1; i >= 0; i-- {
		if p := &parts[i]; !p.Thought && p.Kind != perigee.PartRedacted {
			p.Cache = &perigee.CacheMark{}
			contents[last].Parts, a.prompt.Contents = parts, contents
			return true
		}
	}
	return false
}

// marked reports whether a prompt has marks for the provider's cache.
func marked(p *perigee.Prompt) bool {
	part := func(p perigee.Part) bool { return p.Cache != nil }
	return p.Cache != nil || p.System != nil && slices.ContainsFunc(p.System.Parts, part) ||
		slices.ContainsFunc(p.Tools, func(t perigee.Tool) bool { return t.Cache != nil }) ||
		slices.ContainsFunc(p.Contents, func(c perigee.Content) bool { return slices.ContainsFunc(c.Parts, part) })
}

// instruct adapts the system instruction. Instructions at the beginning of the conversation belong
// to it. Those inside the conversation become texts of the user in the same place: at the beginning
// they would change the prompt that the provider has cached.
func (a *messagesAdapter) instruct() {
	var parts []perigee.Part
	if a.prompt.System != nil {
		parts = slices.Clip(a.prompt.System.Parts)
	}
	first := 0
	for first < len(a.prompt.Contents) && a.prompt.Contents[first].Instructs() {
		parts = append(parts, a.prompt.Contents[first].Parts...)
		first++
	}
	a.prompt.Contents = a.prompt.Contents[first:]
	parts = perigee.EditParts(parts, func(p *perigee.Part) bool { return a.block(p, false) })
	other := func(p perigee.Part) bool { return !isText(p) }
	if slices.ContainsFunc(parts, other) {
		a.notes.Mapped("media of the system instruction to a user turn")
		a.first(without(parts, isText))
		parts = without(parts, other)
	}
	a.prompt.System = nil
	if len(parts) > 0 {
		a.prompt.System = &perigee.Content{Parts: parts}
	}
}

// converse makes the conversation acceptable: nothing empty, the user first, every call followed by
// its result.
func (a *messagesAdapter) converse() {
	list := make([]perigee.Content, 0, len(a.prompt.Contents)+1)
	for _, c := range a.prompt.Contents {
		switch {
		case c.Instructs():
			a.noteInstruction(c.Role)
			c.Role = perigee.RoleUser
		case strings.EqualFold(c.Role, "assistant"), c.Role == perigee.RoleModel:
			c.Role = perigee.RoleModel
		}
		if c.Role != perigee.RoleModel || resultsOnly(&c) {
			c.Role = perigee.RoleUser
		}
		c.Parts = a.turn(c.Parts, isModel(c))
		if len(c.Parts) > 0 {
			list = append(list, c)
		}
	}
	if endsWithCall(list) {
		list = append(list, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}}) // after the missing results
	}
	list = a.pair(list)
	switch {
	case len(list) == 0:
		a.notes.Add(perigee.NoteAdded, "user message")
		list = []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}}}
	case isModel(list[0]):
		a.notes.Repaired(optionName(a.prompt.Dialect, "conversation that began with the model"))
		list = slices.Insert(list, 0, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{proceed}})
	}
	a.prompt.Contents = list
}

// endsWithCall reports whether the last message is the model's and has a call.
func endsWithCall(list []perigee.Content) bool {
	for i := len(list) - 1; i >= 0 && isModel(list[i]); i-- {
		if slices.ContainsFunc(list[i].Parts, isCall) {
			return true
		}
	}
	return false
}

// noteInstruction notes an instruction that becomes a text of the user.
func (a *messagesAdapter) noteInstruction(role string) {
	switch a.prompt.Dialect {
	case perigee.DialectOpenAIChat:
		a.notes.Mapped("messages[].role " + role + " inside the conversation")
	case perigee.DialectOpenAIResponses:
		a.notes.Mapped("input[].role " + role)
	default:
		a.notes.Mapped("turn of role " + role + " to a user turn")
	}
}

// turn adapts the parts of a turn. The media of a failed result follow the results: this API has
// only text in it.
func (a *messagesAdapter) turn(parts []perigee.Part, model bool) []perigee.Part {
	var moved []perigee.Part
	last := 0 // behind the last result
	kept := 0
	parts = perigee.EditParts(parts, func(p *perigee.Part) bool {
		if !a.block(p, model) {
			return false
		}
		kept++
		if p.Kind != perigee.PartResponse {
			return true
		}
		last = kept
		if len(p.Response.Media) > 0 && failed(p.Response) {
			r := *p.Response
			moved, r.Media = append(moved, r.Media...), nil
			p.Response = &r
		}
		return true
	})
	if moved != nil {
		parts = slices.Insert(slices.Clip(parts), last, moved...)
	}
	return parts
}

// failed reports whether a result is an error: an object with the only member error.
func failed(r *perigee.FunctionResponse) bool {
	if r.Output != nil || !isObject(r.Response) {
		return false
	}
	members, found := 0, false
	c := rawjson.NewCursor(r.Response)
	for key := range c.Object() {
		members++
		found = string(key) == "error" && c.Kind() == rawjson.String
	}
	return found && members == 1
}

// block adapts a part and reports whether it stays. The values that it points to are replaced, not
// changed.
func (a *messagesAdapter) block(p *perigee.Part, model bool) bool {
	if p.Thought {
		return a.thought(p, model)
	}
	if p.Kind == perigee.PartOther {
		return a.foreignPart(p)
	}
	p.Signature, p.Extra = "", nil
	switch p.Kind {
	case perigee.PartText:
		return !rawjson.IsBlank(p.Text.Form())
	case perigee.PartBlob, perigee.PartFile:
		return a.medium(p, model)
	case perigee.PartCall:
		if !a.call(p, model, false) {
			return false
		}
		if p.Kind == perigee.PartCall && !isObject(p.Call.Args) {
			call := *p.Call
			call.Args = object(call.Args, "input")
			p.Call = &call
		}
		return true
	case perigee.PartResponse:
		return a.result(p, model)
	}
	return false
}

// foreignPart makes a text of a part that only Google's APIs have.
func (a *messagesAdapter) foreignPart(p *perigee.Part) bool {
	for _, f := range p.Extra {
		*p = textOf("", f.Name, f.Value)
		return true
	}
	return false
}

// result adapts a result and its media.
func (a *messagesAdapter) result(p *perigee.Part, model bool) bool {
	if !a.response(p, model, false) || p.Kind != perigee.PartResponse || len(p.Response.Media) == 0 {
		return p.Response != nil || p.Kind == perigee.PartText
	}
	r := *p.Response
	r.Media = perigee.EditParts(r.Media, func(p *perigee.Part) bool { return a.block(p, false) })
	p.Response = &r
	return true
}

// thought keeps signed thinking in turns of the model.
func (a *messagesAdapter) thought(p *perigee.Part, model bool) bool {
	if !model || p.Signature == "" || models.IsSentinel(p.Signature) || p.Kind != perigee.PartText && p.Kind != perigee.PartRedacted {
		a.notes.Dropped(perigee.OtherReasoning.Subject)
		return false
	}
	p.Signature, p.Extra, p.Cache = singleSignature(p.Signature), nil, nil
	return true
}

// limit sets the limit of output tokens, which this API requires.
func (a *messagesAdapter) limit() {
	gen := &a.prompt.Generation
	most := a.model.Output
	if n := gen.MaxOutputTokens; n != nil && *n < 0 {
		a.notes.Dropped(fmt.Sprintf("max output tokens %d", *n))
		gen.MaxOutputTokens = nil
	}
	switch n := gen.MaxOutputTokens; {
	case n == nil:
		limit := int64(usualLimit)
		if t := gen.Thinking; t != nil && (most > 0 || t.Level == "") {
			limit += a.budgetOf(wanted(*t))
		}
		if most > 0 {
			limit = min(limit, most)
		}
		gen.MaxOutputTokens = &limit
		a.notes.Add(perigee.NoteAdded, fmt.Sprintf("max_tokens %d", limit))
	case most > 0 && *n > most:
		a.notes.Mapped(fmt.Sprintf("max output tokens %d to %d", *n, most))
		gen.MaxOutputTokens = &most
	}
}

// usualLimit is the limit of output tokens where the client sets none and the model has no lower
// one. A thinking budget is added to it, the budget of a level only if the limit of the model is
// known. The limit of the model itself may be longer than the provider lets an answer take that is
// not streamed.
const usualLimit = 32000

// prefill drops the last message of the assistant, which the model would have to continue, if the
// model does not do that. No model does it while it thinks.
func (a *messagesAdapter) prefill() {
	list := a.prompt.Contents
	n := len(list)
	if !isModel(list[n-1]) {
		return
	}
	silent := true
	if t := a.prompt.Generation.Thinking; t != nil {
		want := wanted(*t)
		silent = want.Budget != nil && *want.Budget == 0
	}
	if a.model.Prefill && silent {
		trimEnd(&list[n-1])
		return
	}
	for n > 0 && isModel(list[n-1]) {
		n--
	}
	a.notes.Dropped("last message of the assistant, which the model does not continue")
	a.prompt.Contents = list[:n]
}

// trimEnd removes white space at the end of a content, which the provider refuses there.
func trimEnd(c *perigee.Content) {
	n := len(c.Parts)
	if n == 0 || !isText(c.Parts[n-1]) || c.Parts[n-1].Thought {
		return
	}
	text := rawjson.Unescaped(c.Parts[n-1].Text.Form())
	if trimmed := strings.TrimRight(text, " \t\r\n"); trimmed != text {
		c.Parts = slices.Clone(c.Parts)
		c.Parts[n-1].Text = perigee.Plain(trimmed)
	}
}

// sampling drops the sampling parameters that the model refuses: always, or while it thinks.
func (a *messagesAdapter) sampling() {
	gen := &a.prompt.Generation
	t := gen.Thinking
	on := t != nil && (t.Budget == nil && t.Include != nil && *t.Include || t.Budget != nil && *t.Budget != 0)
	drop := func(value **float64, name string, legal bool) {
		if *value != nil && !legal {
			a.notes.Dropped(optionName(a.prompt.Dialect, name))
			*value = nil
		}
	}
	if n := gen.Temperature; n != nil && *n > 1 && a.model.Sampling && !on {
		a.notes.Mapped(fmt.Sprintf("temperature %v to 1", *n))
		gen.Temperature = new(1.0)
	}
	free := a.model.Sampling && !on
	drop(&gen.Temperature, "temperature", free || gen.Temperature != nil && *gen.Temperature == 1)
	drop(&gen.TopP, "top_p", free && gen.Temperature == nil || gen.TopP != nil && (*gen.TopP == 1 || a.model.Sampling && on && *gen.TopP >= 0.95))
	drop(&gen.TopK, "top_k", free)
}

// otherOptions drops the parameters that this API has no counterpart for.
func (a *messagesAdapter) otherOptions() {
	gen := &a.prompt.Generation
	drop := func(lost bool, name string) {
		if lost {
			a.notes.Dropped(optionName(a.prompt.Dialect, name))
		}
	}
	drop(slices.ContainsFunc(a.prompt.Contents, func(c perigee.Content) bool { return c.Name != "" }), "messages[].name")
	drop(gen.Candidates != nil && *gen.Candidates > 1, "n")
	drop(gen.Seed != nil, "seed")
	drop(gen.PresencePenalty != nil && *gen.PresencePenalty != 0, "presence_penalty")
	drop(gen.FrequencyPenalty != nil && *gen.FrequencyPenalty != 0, "frequency_penalty")
	drop(hasMembers(gen.LogitBias), "logit_bias")
	drop(gen.Logprobs != nil, "logprobs")
	drop(gen.Verbosity != "" && gen.Verbosity != "medium", "verbosity")
	drop(slices.ContainsFunc(gen.Modalities, func(m string) bool { return !strings.EqualFold(m, "text") }), "modalities")
	switch gen.ServiceTier {
	case "", "auto", "standard_only":
	default:
		drop(gen.ServiceTier != "default", "service_tier")
		gen.ServiceTier = ""
	}
	stops := len(gen.Stop)
	gen.Stop = withoutWords(gen.Stop, func(s string) bool { return strings.TrimSpace(s) == "" })
	drop(len(gen.Stop) < stops, "stop sequences of white space")
	for i := range a.prompt.Tools {
		if f := a.prompt.Tools[i].Function; f != nil && f.Custom != nil {
			noteCustom(&a.notes, a.prompt.Dialect, a.names.Client(f.Name))
		}
	}
	for _, f := range a.prompt.Extra {
		drop(true, clip(f.Name))
	}
	for _, f := range gen.Extra {
		drop(true, "generationConfig."+clip(f.Name))
	}
	a.prompt.Extra, gen.Extra = nil, nil
	gen.Candidates, gen.Seed, gen.PresencePenalty, gen.FrequencyPenalty = nil, nil, nil, nil
	gen.LogitBias, gen.Logprobs, gen.Verbosity, gen.Modalities = nil, nil, "", nil
}
