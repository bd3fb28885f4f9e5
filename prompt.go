package perigee

import (
	"slices"
	"sync"
)

// An Editor makes a changed copy of a prompt. Prompts are shared between goroutines and between
// attempts, so the original stays as it is: its contents, and the parts of each of them, are copied
// before the first change. A field of the copy may be replaced directly; what it points at still
// belongs to the original.
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

// EditParts returns parts as edit changes them, without those for which it returns false. The list
// given stays as it is, and is returned itself when nothing changes. What a part points at is
// replaced, never changed.
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

// editedParts has the parts that edit functions get. A part of each call would be on the heap,
// because the functions get a pointer.
var editedParts = sync.Pool{New: func() any { return new(Part) }}

// same says whether two parts have the same text and point at the same data.
func (p *Part) same(o *Part) bool {
	return p.Kind == o.Kind && p.Thought == o.Thought && p.Text == o.Text && p.Signature == o.Signature &&
		p.Blob == o.Blob && p.File == o.File && p.Call == o.Call && p.Response == o.Response &&
		len(p.Extra) == len(o.Extra) && (len(p.Extra) == 0 || &p.Extra[0] == &o.Extra[0])
}

// CurrentTurn is the index of the first content of the turn that the model is in: the one after the
// last message of the user's that answers no call. Contents of the user's in a row are one message.
// A message with the result of a call belongs to the turn, whatever stands beside the result: a
// picture that the tool has made, or a text. Providers disagree about the text, so what a turn
// needs (signatures, thinking) is seen to as if it did not end the turn.
func CurrentTurn(contents []Content) int {
	for end := len(contents); end > 0; {
		if contents[end-1].Role == RoleModel {
			end--
			continue
		}
		begin := LastMessage(contents[:end])
		if !HaveResult(contents[begin:end]) {
			return end
		}
		end = begin
	}
	return 0
}

// LastMessage is the index of the first content of the user's last message: of those that end the
// list and are not the model's. It is the length of a list that ends with the model.
func LastMessage(contents []Content) int {
	begin := len(contents)
	for begin > 0 && contents[begin-1].Role != RoleModel {
		begin--
	}
	return begin
}

// HaveResult says whether one of the contents has the result of a call.
func HaveResult(contents []Content) bool {
	for i := range contents {
		for j := range contents[i].Parts {
			if contents[i].Parts[j].Kind == PartResponse {
				return true
			}
		}
	}
	return false
}

// A rule of thumb, for where no tokenizer is at hand: four bytes of text are a token, and a picture
// or a document is one tile.
const (
	bytesPerToken  = 4
	tokensPerMedia = 258
)

// EstimateTokens is about how many tokens texts of so many bytes and so many pictures or documents
// are.
func EstimateTokens(bytes, media int) int64 {
	return int64((bytes+bytesPerToken-1)/bytesPerToken) + int64(media)*tokensPerMedia
}

// EstimateBody is about how many tokens a request of the provider's own dialect has. It does not
// decode it, and looks at the beginning of each block only: one without a space or a quote in it is
// taken for a part of a picture or a document.
func EstimateBody(body []byte) int64 {
	const block, probe = 1 << 10, 64
	text, media, inMedia := len(body), 0, false
	for i := 0; i+block <= len(body); i += block {
		encoded := isBase64(body[i : i+probe])
		if encoded {
			text -= block
		}
		if encoded && !inMedia {
			media++
		}
		inMedia = encoded
	}
	return EstimateTokens(text, media)
}

func isBase64(data []byte) bool {
	for _, c := range data {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '-', c == '_', c == '=':
		default:
			return false
		}
	}
	return true
}

// EstimateTokens is about how many tokens the request has.
func (r *Request) EstimateTokens() int64 {
	if r.Dialect == DialectGemini {
		return EstimateBody(r.Body) // its prompt may never be needed
	}
	if prompt, err := r.Prompt(); err == nil {
		return prompt.EstimateTokens()
	}
	return 0
}

// EstimateTokens is about how many tokens the prompt has.
func (p *Prompt) EstimateTokens() int64 {
	bytes, media := 0, 0
	var parts func(list []Part)
	parts = func(list []Part) {
		for i := range list {
			switch p := &list[i]; p.Kind {
			case PartText:
				bytes += len(p.Text)
			case PartBlob, PartFile:
				media++
			case PartCall:
				bytes += len(p.Call.Name) + len(p.Call.Args)
			case PartResponse:
				bytes += len(p.Response.Name) + len(p.Response.Response) + len(p.Response.Output)
				parts(p.Response.Media)
			}
		}
	}
	if p.System != nil {
		parts(p.System.Parts)
	}
	for i := range p.Contents {
		parts(p.Contents[i].Parts)
	}
	for _, t := range p.Tools {
		if f := t.Function; f != nil {
			bytes += len(f.Name) + len(f.Description) + len(f.Parameters)
		}
	}
	return EstimateTokens(bytes, media)
}
