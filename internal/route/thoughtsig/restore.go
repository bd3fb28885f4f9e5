package thoughtsig

import (
	"context"
	"slices"

	"perigee"
)

// A place is a part of the conversation that may have had a signature.
type place struct {
	content, part int
	key           string // the key of its signature; empty if the part cannot be identified
	own           string // the key of the kind of the signature that it has; empty if it has none
}

// restore returns the prompt for a model with this kind of signatures: with the signatures of that
// kind that the client kept, and with the remembered signatures and thinking that it lost. It does
// not modify p, and returns p if nothing changes.
func (m *Memory) restore(ctx context.Context, p *perigee.Prompt, s *scope) *perigee.Prompt {
	places := m.listPlaces(p, s)
	steps := listSteps(p, s)
	if len(places) == 0 && len(steps) == 0 {
		return p
	}
	known := m.find(ctx, keysOf(places, steps))
	e, changed := p.Edit(), false
	for _, at := range places {
		was := p.Contents[at.content].Parts[at.part].Signature
		if is := choose(at, was, s.kind, known); is != was {
			e.Part(at.content, at.part).Signature = is
			changed = true
		}
	}
	m.follow(ctx, steps, known)
	for i := range steps {
		changed = steps[i].restoreThinking(e, known) || changed
	}
	if !changed {
		return p
	}
	e.Contents = slices.DeleteFunc(e.Contents, func(c perigee.Content) bool { return len(c.Parts) == 0 })
	return e.Prompt
}

func keysOf(places []place, steps []step) []string {
	keys := make([]string, 0, 2*len(places)+len(steps))
	for i := range places {
		if places[i].key != "" {
			keys = append(keys, places[i].key)
		}
		if places[i].own != "" {
			keys = append(keys, places[i].own)
		}
	}
	for i := range steps {
		keys = append(keys, steps[i].keys...)
	}
	return keys
}

// choose returns the signature for a part.
func choose(at place, was, kind string, known entries) string {
	own, seen := known[at.own]
	seen = seen && was != ""
	if seen && own.Kind == kind {
		return was
	}
	if s, ok := known[at.key]; ok && at.key != "" && s.Kind == kind {
		return s.Value
	}
	if was != "" && !seen && plausible(was, kind) {
		return was
	}
	return ""
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
			at := place{content: i, part: j, key: m.partKey(part, s, &text)}
			if part.Signature != "" {
				at.own = signatureKey(part.Signature)
			}
			if at.key != "" || at.own != "" {
				list = append(list, at)
			}
		}
	}
	return list
}

// partKey returns the key of the signature of a part.
func (m *Memory) partKey(part *perigee.Part, s *scope, text *textDigest) string {
	switch {
	case !s.signs(part.Thought):
		return ""
	case part.Kind == perigee.PartCall && part.Call != nil && part.Call.ID != "":
		return s.callKey(part.Call.ID)
	case part.Kind == perigee.PartText && !part.Text.Empty():
		kind := perigee.EventText
		if part.Thought {
			kind = perigee.EventThinking
		}
		return s.textKey(kind, m.sums.sum(part.Text, text))
	}
	return ""
}
