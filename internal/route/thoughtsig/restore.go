package thoughtsig

import (
	"context"
	"slices"

	"perigee"
	"perigee/internal/adapt/models"
)

// A place is a part of the conversation that has reasoning, or may have had some.
type place struct {
	content, part int
	key           string // the key of its signature; empty if the part cannot be identified
	own           string // the key of the kind of the signature that it has; empty if it has none
	origin        string // the key of the kind of a thought; empty if it is none
}

// restore returns the prompt for a provider: with its reasoning that the client kept, with the
// remembered signatures and thinking that the client lost, and without the reasoning of other
// providers. foreign is set if there was any. restore does not modify p, and returns p if nothing
// changes.
func (m *Memory) restore(ctx context.Context, p *perigee.Prompt, s *scope) (restored *perigee.Prompt, foreign bool) {
	places := m.listPlaces(p, s)
	steps := listSteps(p, s)
	if len(places) == 0 && len(steps) == 0 {
		return p, false
	}
	known := m.find(ctx, keysOf(places, steps))
	e, changed := p.Edit(), false
	var left []place // that must not stay
	for i := range places {
		at := &places[i]
		part := &p.Contents[at.content].Parts[at.part]
		is, other := s.choose(at, part, known)
		if other {
			foreign = true
			if part.Thought {
				left = append(left, *at)
				continue
			}
		}
		if is != part.Signature {
			e.Part(at.content, at.part).Signature = is
			changed = true
		}
	}
	leaveOut(e, left)
	m.follow(ctx, steps, known)
	for i := range steps {
		changed = steps[i].restoreThinking(e, known, s.Provider) || changed
	}
	if !changed && len(left) == 0 {
		return p, foreign
	}
	e.Contents = slices.DeleteFunc(e.Contents, func(c perigee.Content) bool { return len(c.Parts) == 0 })
	return e.Prompt, foreign
}

// leaveOut removes parts, which are in order.
func leaveOut(e *perigee.Editor, parts []place) {
	for len(parts) > 0 {
		n, i := parts[0].content, -1
		c := e.Content(n)
		c.Parts = perigee.EditParts(c.Parts, func(*perigee.Part) bool {
			if i++; len(parts) > 0 && parts[0].content == n && parts[0].part == i {
				parts = parts[1:]
				return false
			}
			return true
		})
	}
}

func keysOf(places []place, steps []step) []string {
	keys := make([]string, 0, 3*len(places)+len(steps))
	for i := range places {
		if places[i].key != "" {
			keys = append(keys, places[i].key)
		}
		if places[i].own != "" {
			keys = append(keys, places[i].own)
		}
		if places[i].origin != "" {
			keys = append(keys, places[i].origin)
		}
	}
	for i := range steps {
		keys = append(keys, steps[i].keys...)
	}
	return keys
}

// choose returns the signature for a part. foreign is set if the part has reasoning of another
// provider.
func (s *scope) choose(at *place, part *perigee.Part, known entries) (signature string, foreign bool) {
	was := part.Signature
	own, seen := known[at.own]
	seen = seen && was != ""
	if seen && own.Kind == s.Provider {
		return was, false
	}
	if found, ok := known[at.key]; ok && at.key != "" && found.Kind == s.Provider {
		return found.Value, false
	}
	if origin, ok := known[at.origin]; ok && at.origin != "" && origin.Kind != s.Provider {
		return "", true
	}
	switch {
	case was == "" || seen:
		return "", seen
	case plausible(was, s.Provider):
		return was, false
	}
	// A thought that is not known is another provider's: all that a provider has made is remembered.
	return "", !models.IsSentinel(was) && (part.Thought || s.Form != perigee.ReasoningInParts && s.Provider != claude)
}

// maxPlaces is the number of parts of the model for which signatures are looked up: the last ones,
// because only the current turn needs all of them. Earlier parts keep their signatures if these are
// plausible.
const maxPlaces = 4096

func modelParts(p *perigee.Prompt) (n int) {
	for i := range p.Contents {
		if p.Contents[i].Role == perigee.RoleModel {
			n += len(p.Contents[i].Parts)
		}
	}
	return n
}

// listPlaces returns the parts of the model that have a signature or may have lost one.
func (m *Memory) listPlaces(p *perigee.Prompt, s *scope) []place {
	list := make([]place, 0, len(p.Contents))
	var text textDigest
	old := modelParts(p) - maxPlaces
	for i := range p.Contents {
		if p.Contents[i].Role != perigee.RoleModel {
			continue
		}
		for j := range p.Contents[i].Parts {
			part := &p.Contents[i].Parts[j]
			if old--; old >= 0 {
				if part.Signature != "" {
					list = append(list, place{content: i, part: j})
				}
				continue
			}
			at := place{content: i, part: j}
			m.identify(&at, part, s, &text)
			if part.Signature != "" {
				at.own = signatureKey(part.Signature)
			}
			if at.key != "" || at.own != "" || at.origin != "" {
				list = append(list, at)
			}
		}
	}
	return list
}

// identify sets the keys by which the reasoning of a part is found.
func (m *Memory) identify(at *place, part *perigee.Part, s *scope, text *textDigest) {
	switch {
	case part.Kind == perigee.PartCall && part.Call != nil && part.Call.ID != "":
		if s.signs(false) {
			at.key = s.callKey(part.Call.ID)
		}
	case part.Kind == perigee.PartText && part.Thought && !part.Text.Empty():
		sum := m.sums.sum(part.Text, text)
		at.origin = s.originKey(sum)
		if s.signs(true) {
			at.key = s.textKey(perigee.EventThinking, sum)
		}
	case part.Kind == perigee.PartText && s.signs(false) && !part.Text.Empty():
		at.key = s.textKey(perigee.EventText, m.sums.sum(part.Text, text))
	}
}
