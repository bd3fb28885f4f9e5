package thoughtsig

import (
	"context"
	"maps"
	"slices"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A step is one message of the model with calls: consecutive contents of the model, which providers
// read as one message.
type step struct {
	from, to int      // contents
	keys     []string // of the thinking before each call, in order
}

// listSteps lists the steps that may have lost their thinking: all steps for a provider that requires
// its thinking as text. For all other providers only the steps of the current turn count. In a tool
// loop Claude requires the thinking at the beginning of its turn. All thinking of the turn is
// restored, because later thinking continues it. The model ignores thinking of earlier turns. With
// thinking turned off none may be sent.
func listSteps(p *perigee.Prompt, s *scope) []step {
	from := 0
	switch {
	case s.Provider == "" || s.Form == perigee.ReasoningInParts:
		return nil
	case s.Form == perigee.ReasoningInBlocks:
		if off(p.Generation.Thinking) {
			return nil
		}
		from = perigee.CurrentTurn(p.Contents)
	}
	var list []step
	var keys []string
	for i := from; i < len(p.Contents); i++ {
		if p.Contents[i].Role != perigee.RoleModel {
			continue
		}
		at, first := step{from: i, to: i + 1}, len(keys)
		for at.to < len(p.Contents) && p.Contents[at.to].Role == perigee.RoleModel {
			at.to++
		}
		for _, c := range p.Contents[at.from:at.to] {
			for j := range c.Parts {
				if call := c.Parts[j].Call; c.Parts[j].Kind == perigee.PartCall && call != nil && call.ID != "" {
					keys = append(keys, s.thoughtsKey(call.ID))
				}
			}
		}
		if at.keys = keys[first:]; len(at.keys) > 0 {
			list = append(list, at)
		}
		i = at.to
	}
	return list
}

func off(t *perigee.Thinking) bool { return t != nil && t.Budget != nil && *t.Budget == 0 }

// follow adds the values of references to known. The call with the value is usually in the same
// step, but clients may leave calls out.
func (m *Memory) follow(ctx context.Context, steps []step, known entries) {
	var more []string
	for i := range steps {
		for _, key := range steps[i].keys {
			if at, ok := reference(known[key]); ok && known[at] == nil {
				more = append(more, at)
			}
		}
	}
	if more != nil {
		maps.Copy(known, m.find(ctx, more))
	}
}

// has reports whether the step has exactly this thinking before its first call.
func (at *step) has(thinking []perigee.Part, contents []perigee.Content) bool {
	n := 0
	for _, c := range contents[at.from:at.to] {
		for j := range c.Parts {
			part := &c.Parts[j]
			if part.Kind == perigee.PartCall {
				return n == len(thinking)
			}
			if !isThought(*part) {
				continue
			}
			if n == len(thinking) || plain(part) != plain(&thinking[n]) || part.Signature != thinking[n].Signature {
				return false
			}
			n++
		}
	}
	return n == len(thinking)
}

func plain(p *perigee.Part) string { return rawjson.Unescaped(p.Text.Form()) }

func isThought(p perigee.Part) bool {
	return p.Thought && (p.Kind == perigee.PartText || p.Kind == perigee.PartRedacted)
}

// restoreThinking puts the remembered thinking at the beginning of the step, and reports whether
// that changes anything. Thinking that the client kept stays only if it is identical: a signature
// is valid only for the original text, not for one that was trimmed or joined.
func (at *step) restoreThinking(e *perigee.Editor, known entries, kind string) bool {
	lost := at.remembered(known, kind)
	if lost == nil || at.has(lost, e.Contents) {
		return false
	}
	for i := at.from; i < at.to; i++ {
		c := e.Content(i)
		c.Parts = perigee.EditParts(c.Parts, func(p *perigee.Part) bool { return !isThought(*p) })
		if i == at.from {
			c.Parts = slices.Concat(lost, c.Parts)
		}
	}
	return true
}

// remembered returns the thinking before the first call that has an entry.
func (at *step) remembered(known entries, kind string) []perigee.Part {
	for _, key := range at.keys {
		s := known[key]
		if target, ok := reference(s); ok {
			s = known[target]
		}
		if s == nil || s.Kind != kind {
			continue
		}
		if parts := thoughts(s.Value); parts != nil {
			return parts
		}
	}
	return nil
}
