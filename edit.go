package perigee

import (
	"slices"
	"sync"
)

// An Editor makes a changed copy of a prompt. Prompts are shared between goroutines and between attempts, so the original
// stays as it is: its contents, and the parts of each of them, are copied before the first change. A field of the copy may
// be replaced directly; what it points at still belongs to the original.
type Editor struct {
	*Prompt  // the copy
	contents bool
	parts    map[int]bool // by content: its parts are copies
}

// Edit begins a copy of p.
func (p *Prompt) Edit() *Editor {
	c := *p
	return &Editor{Prompt: &c}
}

// Content returns a content that may be changed, but for its parts.
func (e *Editor) Content(i int) *Content {
	if !e.contents {
		e.Contents, e.contents = slices.Clone(e.Contents), true
	}
	return &e.Contents[i]
}

// Part returns a part that may be changed; what it points at may be replaced.
func (e *Editor) Part(content, i int) *Part {
	c := e.Content(content)
	if !e.parts[content] {
		if e.parts == nil {
			e.parts = map[int]bool{}
		}
		c.Parts, e.parts[content] = slices.Clone(c.Parts), true
	}
	return &c.Parts[i]
}

// EditParts returns parts as edit changes them, without those for which it returns false. The list given stays as it is, and
// is returned itself when nothing changes. What a part points at is replaced, never changed.
func EditParts(parts []Part, edit func(*Part) bool) []Part {
	part := editedParts.Get().(*Part)
	var out []Part   // from the first change on
	changed := false // out may be empty
	for i := range parts {
		*part = parts[i]
		keep := edit(part)
		if !changed {
			if keep && part.same(&parts[i]) {
				continue
			}
			out, changed = append(make([]Part, 0, len(parts)), parts[:i]...), true
		}
		if keep {
			out = append(out, *part)
		}
	}
	*part = Part{}
	editedParts.Put(part)
	if !changed {
		return parts
	}
	return out
}

// editedParts has the parts that edit functions get. A part of each call would be on the heap, because the functions get a
// pointer.
var editedParts = sync.Pool{New: func() any { return new(Part) }}

// same says whether two parts have the same text and point at the same data.
func (p *Part) same(o *Part) bool {
	return p.Kind == o.Kind && p.Thought == o.Thought && p.Text == o.Text && p.Signature == o.Signature &&
		p.Blob == o.Blob && p.File == o.File && p.Call == o.Call && p.Response == o.Response &&
		len(p.Extra) == len(o.Extra) && (len(p.Extra) == 0 || &p.Extra[0] == &o.Extra[0])
}
