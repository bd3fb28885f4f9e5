package thoughtsig

import (
	"context"
	"slices"

	"perigee"
)

// A place is a part of the conversation that may have had a signature.
type place struct {
	content, part int
	key           string // where its signature is remembered; empty: it cannot be identified
	own           string // where the kind of the signature that it has is remembered; empty: it has none
}

// restore returns the prompt with what a model with this kind of signatures should get: the
// signatures of that kind that the client kept, those that it lost and that are remembered, and the
// thinking that it lost. The prompt itself stays as it is; it is returned when nothing changes.
func (m *Memory) restore(ctx context.Context, p *perigee.Prompt, s *scope) *perigee.Prompt {
	places := listPlaces(p, s)
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

// choose decides which signature a part gets.
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

// maxPlaces is for how many parts of the model's signatures are looked up: the last ones, because
// only the current turn needs them all. Parts before them keep the signatures that look right.
const maxPlaces = 4096

func modelParts(p *perigee.Prompt) (n int) {
	for i := range p.Contents {
		if p.Contents[i].Role == perigee.RoleModel {
			n += len(p.Contents[i].Parts)
		}
	}
	return n
}

// listPlaces lists the parts of the model's that have a signature or may have lost one.
func listPlaces(p *perigee.Prompt, s *scope) []place {
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
			at := place{content: i, part: j, key: s.partKey(part, &text)}
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

// partKey is where the signature of a part is remembered.
func (s *scope) partKey(part *perigee.Part, text *textDigest) string {
	switch {
	case !s.signs(part.Thought):
		return ""
	case part.Kind == perigee.PartCall && part.Call != nil && part.Call.ID != "":
		return s.callKey(part.Call.ID)
	case part.Kind == perigee.PartText && part.Text != "":
		text.reset()
		text.write(part.Text)
		kind := perigee.EventText
		if part.Thought {
			kind = perigee.EventThinking
		}
		return s.textKey(kind, text)
	}
	return ""
}
