package signature

import (
	"context"
	"slices"

	"perigee"
)

// A place is a part of the conversation that may have had a signature.
type place struct {
	content, part int
	key           string // where its signature is remembered; empty: it has no mark to be known by
	own           string // where the kind of the signature that it has is remembered; empty: it has none
}

// restore returns the prompt with the signatures that a model with this seal should see: those that the client kept
// and that are really its kind, and those that the client lost and we remember. The prompt itself stays as it is; it
// is returned when nothing changes.
func (m *Memory) restore(ctx context.Context, p *perigee.Prompt, seal string) *perigee.Prompt {
	places := m.places(p, seal)
	if len(places) == 0 {
		return p
	}
	keys := make([]string, 0, len(places))
	for _, at := range places {
		for _, key := range []string{at.key, at.own} {
			if key != "" {
				keys = append(keys, key)
			}
		}
	}
	known := m.find(ctx, keys)
	out := p
	copied := -1 // the last content whose parts are our own
	for _, at := range places {
		was := p.Contents[at.content].Parts[at.part].Signature
		is := choose(at, was, seal, known)
		if is == was {
			continue
		}
		if out == p {
			c := *p
			c.Contents = slices.Clone(p.Contents)
			out = &c
		}
		if copied != at.content {
			copied = at.content
			out.Contents[copied].Parts = slices.Clone(out.Contents[copied].Parts)
		}
		out.Contents[at.content].Parts[at.part].Signature = is
	}
	return out
}

// choose decides which signature a part gets.
func choose(at place, was, seal string, known found) string {
	if kind, ok := known[at.own]; was != "" && ok && kind.Seal == seal {
		return was
	}
	if s, ok := known[at.key]; ok && at.key != "" && s.Seal == seal {
		return s.Value
	}
	if _, ok := known[at.own]; was != "" && !ok && plausible(was, seal) {
		return was
	}
	return ""
}

// places lists the parts of the model's that have a signature or may have lost one.
func (m *Memory) places(p *perigee.Prompt, seal string) []place {
	var list []place
	var text textDigest
	for i := range p.Contents {
		if p.Contents[i].Role != perigee.RoleModel {
			continue
		}
		for j := range p.Contents[i].Parts {
			part := &p.Contents[i].Parts[j]
			at := place{content: i, part: j}
			if part.Signature != "" {
				at.own = sealKey(part.Signature)
			}
			if seal != "" {
				at.key = partKey(part, seal, &text)
			}
			if at.key != "" || at.own != "" {
				list = append(list, at)
			}
		}
	}
	return list
}

// partKey is where the signature of a part is remembered.
func partKey(part *perigee.Part, seal string, text *textDigest) string {
	switch {
	case part.Kind == perigee.PartCall && part.Call != nil && part.Call.ID != "":
		return callKey(part.Call.ID)
	case part.Kind == perigee.PartText && part.Text != "":
		text.reset()
		text.write(part.Text)
		kind := perigee.EventText
		if part.Thought {
			kind = perigee.EventThinking
		}
		return textKey(kind, seal, text)
	}
	return ""
}
