package adapt

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/lib/rawjson"
)

// signature returns the thought signature that a part keeps: one that the model issued, and on
// calls of Google's models also the sentinel.
func (a *adapter) signature(p *perigee.Part, model bool) string {
	switch {
	case p.Signature == "" || !model || p.Kind == perigee.PartResponse || a.repairs(RepairSignatures):
		return ""
	case a.gateway && a.claude():
		if p.Kind != perigee.PartText && p.Kind != perigee.PartOther || models.IsSentinel(p.Signature) || !p.Thought && !p.Text.Empty() {
			return ""
		}
		return claudeSignature(p.Signature)
	case models.IsSentinel(p.Signature) && p.Kind != perigee.PartCall:
		return ""
	case a.gateway && (!a.native() || isClaudes(p.Signature)):
		return ""
	}
	return p.Signature
}

// claudeSignature returns a signature as the gateway expects it for Claude: base64 twice. Some
// clients get it, and keep it, in base64 once. It is empty for signatures of another channel, which
// the gateway does not accept.
func claudeSignature(signature string) string {
	switch signature[0] {
	case 'E':
		return base64.StdEncoding.EncodeToString([]byte(signature))
	case 'C':
		return ""
	}
	return signature
}

// isClaudes reports whether a signature is base64 twice, as only Claude's are here.
func isClaudes(signature string) bool {
	if len(signature) < 8 || signature[0] != 'R' {
		return false
	}
	var inner [6]byte
	if _, err := base64.StdEncoding.Decode(inner[:], []byte(signature[:8])); err != nil || inner[0] != 'E' {
		return false
	}
	return strings.Trim(string(inner[:]), base64Alphabet) == ""
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// sign leaves the sentinel on the first call of a step only, and adds it there where the model
// requires a signature. Generation 3 does so in the current turn; after a rejection it is unknown
// where the provider sees the beginning of that turn.
func (a *adapter) sign(list []perigee.Content) {
	from := len(list)
	switch {
	case a.spec.Family != models.Gemini:
	case a.repairs(RepairSignatures):
		from = 0
	default:
		from = perigee.CurrentTurn(list)
	}
	for i := range list {
		if !isModel(list[i]) || !slices.ContainsFunc(list[i].Parts, isCall) {
			continue
		}
		first := true
		list[i].Parts = perigee.EditParts(list[i].Parts, func(p *perigee.Part) bool {
			switch {
			case p.Kind != perigee.PartCall:
				return true
			case first && p.Signature == "" && i >= from:
				p.Signature = models.Sentinel
			case !first && models.IsSentinel(p.Signature):
				p.Signature = ""
			}
			first = false
			return true
		})
	}
}

// rejectedStandIns reports whether a rejection of signatures can only be about sentinels, or about
// calls without a signature: the conversation has no other. Calls then become texts, in whichever
// turn they are.
func (a *adapter) rejectedStandIns() bool {
	return a.repairs(RepairSignatures) && a.spec.Family == models.Gemini &&
		!slices.ContainsFunc(a.prompt.Contents, func(c perigee.Content) bool {
			return isModel(c) && slices.ContainsFunc(c.Parts, func(p perigee.Part) bool {
				return p.Signature != "" && !models.IsSentinel(p.Signature)
			})
		})
}

// withoutSignatures returns parts without any signature, and without the thoughts that only a
// signature could prove.
func withoutSignatures(parts []perigee.Part) []perigee.Part {
	return perigee.EditParts(parts, func(p *perigee.Part) bool {
		p.Signature = ""
		return !p.Thought
	})
}

func isThought(p perigee.Part) bool { return p.Thought }

// leading returns how many thoughts parts begin with.
func leading(parts []perigee.Part) int {
	n := 0
	for n < len(parts) && parts[n].Thought {
		n++
	}
	return n
}

func startsWithThought(c *perigee.Content) bool { return c.Parts[0].Thought }

// turnStarts returns where the current turn begins, and the first content of the model in it for
// each rule for the end of a turn beside results: nothing, a text, or anything. They are in order,
// and nil unless the model has to continue after results.
func turnStarts(list []perigee.Content) (turn int, starts []int) {
	turn = perigee.CurrentTurn(list)
	last := perigee.LastMessage(list)
	if !perigee.HaveResult(list[last:]) {
		return turn, nil
	}
	first := slices.IndexFunc(list[turn:last], isModel)
	if first < 0 {
		return turn, nil
	}
	first += turn
	text, anything := first, first
	for i := first; i < last; i++ {
		if isModel(list[i]) || resultsOnly(&list[i]) {
			continue
		}
		anything = i + slices.IndexFunc(list[i:last], isModel)
		if slices.ContainsFunc(list[i].Parts, isText) {
			text = anything
		}
	}
	return turn, []int{first, text, anything}
}

// withOfficialThoughts makes a paired conversation acceptable to Claude behind the official API:
// calls with legal ids of their own, thoughts only at the beginning of a content. Later thoughts
// come from an answer that the client has joined from several, and their signatures are for another
// place. lost reports whether a note about lost thoughts was added.
func (a *adapter) withOfficialThoughts(list []perigee.Content) (out []perigee.Content, lost bool) {
	identify(list)
	for i := range list {
		if isModel(list[i]) {
			began := false
			list[i].Parts = perigee.EditParts(list[i].Parts, func(p *perigee.Part) bool {
				began = began || !p.Thought
				return !began || !p.Thought
			})
		}
	}
	turn, starts := turnStarts(list)
	if starts == nil {
		return list, false
	}
	// In an open round of tools Claude continues to think only from signed thoughts at the
	// beginning of its turn. Without them it can answer, but not think.
	if thinks(a.prompt.Generation.Thinking) {
		if !slices.ContainsFunc(starts, func(i int) bool { return !startsWithThought(&list[i]) }) {
			return list, false
		}
		lost = true
		a.prompt.Generation.Thinking = nil
		a.notes.Dropped("thinking in a round of tools whose first thoughts are lost")
	}
	for i := turn; i < len(list); i++ {
		list[i].Parts = without(list[i].Parts, isThought)
	}
	return withoutEmpty(list), lost
}

// withThoughts gives calls ids of their own, decides which thoughts Claude behind the gateway gets,
// and closes a round of tools that it could not continue; lost reports whether it did that or added
// a note. The list is paired, and every turn begins with its thoughts.
func (a *adapter) withThoughts(list []perigee.Content) (out []perigee.Content, lost bool) {
	identify(list)
	if len(list) == 0 {
		return list, false
	}
	for i := range list {
		if isModel(list[i]) {
			list[i].Parts = thoughtsFirst(list[i].Parts) // pairing may have joined contents
		}
	}
	on := thinks(a.prompt.Generation.Thinking)
	if on && !a.opts.KeepThinking {
		list = withoutMereThoughts(list)
	}
	turn, starts := turnStarts(list)
	open := starts != nil
	latest := -1
	if open {
		latest = starts[len(starts)-1]
	}
	lost = on && open && !startsWithThought(&list[latest])
	between := on && !lost && slices.ContainsFunc(starts, func(i int) bool { return !startsWithThought(&list[i]) })
	if between {
		starts = starts[len(starts)-1:] // the earlier ones are in the round that is closed below
	}
	for i := range list {
		keep := on && (a.opts.KeepThinking || slices.Contains(starts, i))
		if isModel(list[i]) && (!keep || lost && i >= turn) {
			list[i].Parts = list[i].Parts[leading(list[i].Parts):]
		}
	}
	if lost || between {
		a.notes.Repaired("round of tools whose first thoughts are lost")
	}
	switch rejected := a.repairs(RepairThinkingOrder); {
	case lost, rejected && open:
		list = closeRound(list, perigee.LastMessage(list))
	case between:
		list = closeRound(list, perigee.LastMessage(list[:latest]))
	case rejected:
		a.prompt.Generation.Thinking = nil
	}
	return withoutEmpty(list), lost || between
}

// noteOmitted notes that a conversation had more thinking before it was adapted. A repair that
// removes thinking has its own note.
func (a *adapter) noteOmitted(before, adapted []perigee.Content) {
	if !a.repairs(RepairThinkingOrder|RepairSignatures|RepairThinkingOff) && thinkingIn(adapted) < thinkingIn(before) {
		a.notes.Add(perigee.NoteOmitted, "earlier thinking")
	}
}

// thinkingIn returns how many bytes of thinking a conversation has. The number of parts does not
// count: adapting joins parts of one signature.
func thinkingIn(list []perigee.Content) (bytes int) {
	for _, c := range list {
		for i := range c.Parts {
			if isThought(c.Parts[i]) {
				bytes += len(rawjson.Unescaped(c.Parts[i].Text.Form()))
			}
		}
	}
	return bytes
}

// withoutMereThoughts drops messages of the model that have nothing but thoughts. Without its
// thoughts such a message is empty, and the user's messages before and after it are one; whether a
// round of tools is open depends on that.
func withoutMereThoughts(list []perigee.Content) []perigee.Content {
	out := list[:0]
	for i := 0; i < len(list); {
		to := i + 1
		for to < len(list) && isModel(list[to]) == isModel(list[i]) {
			to++
		}
		hasContent := func(c perigee.Content) bool { return !isModel(c) || leading(c.Parts) < len(c.Parts) }
		if slices.ContainsFunc(list[i:to], hasContent) {
			out = append(out, list[i:to]...)
		}
		i = to
	}
	return out
}

// thoughtsFirst puts the first thoughts of a turn before everything else, where Claude requires
// them, each with its signature; the signature often comes by itself, after the text. Later
// thoughts come from an answer that the client has joined from several, and are dropped; so are
// those without a signature.
func thoughtsFirst(parts []perigee.Part) []perigee.Part {
	incomplete := func(p perigee.Part) bool { return p.Signature == "" || p.Text.Empty() }
	if n := leading(parts); !slices.ContainsFunc(parts[:n], incomplete) && !slices.ContainsFunc(parts[n:], isThought) {
		return parts
	}
	var thoughts, rest []perigee.Part
	var open strings.Builder // thinking since the last signature
	ended := false           // something else came after the first thoughts
	for i := range parts {
		part := &parts[i]
		switch {
		case !part.Thought:
			rest = append(rest, *part)
			ended = ended || len(thoughts) > 0
			open.Reset()
		case ended:
		case part.Signature == "":
			open.WriteString(rawjson.Unescaped(part.Text.Form()))
		default:
			thought := *part
			if thought.Text.Empty() {
				thought.Text = perigee.Plain(open.String())
			}
			thoughts = append(thoughts, thought)
			open.Reset()
		}
	}
	return append(thoughts, rest...)
}

// CloseRound returns a prompt in which the open round of tools is over: the model's turn ends after
// the results, and the user asks it to continue, so that it begins a turn with new thoughts. ok is
// false if no round is open.
func CloseRound(p *perigee.Prompt) (closed *perigee.Prompt, ok bool) {
	last := perigee.LastMessage(p.Contents)
	if !perigee.HaveResult(p.Contents[last:]) {
		return nil, false
	}
	e := p.Edit()
	e.Contents = closeRound(slices.Clone(e.Contents), last)
	return e.Prompt, true
}

// closeRound ends the model's turn after the results in the user's message that begins at from, so
// that it begins another one with new thoughts. The user's own texts beside the results follow;
// without any, a text asks the model to continue.
func closeRound(list []perigee.Content, from int) []perigee.Content {
	results, at := 0, from
	var texts []perigee.Part
	for ; at < len(list) && !isModel(list[at]) && texts == nil; at++ {
		parts := list[at].Parts
		if own := slices.IndexFunc(parts, isText); own >= 0 {
			parts, texts = parts[:own:own], parts[own:]
			list[at].Parts = parts
		}
		for i := range parts {
			if parts[i].Kind == perigee.PartResponse {
				results++
			}
		}
	}
	closing := "[The tool has answered.]"
	if results > 1 {
		closing = "[" + strconv.Itoa(results) + " tools have answered.]"
	}
	if texts == nil {
		texts = []perigee.Part{proceed}
	}
	return slices.Insert(list, at,
		perigee.Content{Role: perigee.RoleModel, Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain(closing)}}},
		perigee.Content{Role: perigee.RoleUser, Parts: texts})
}
