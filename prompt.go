package perigee

import (
	"slices"
	"sync"
)

// An Editor makes a changed copy of a prompt. Prompts are shared between goroutines and between
// attempts, so the original is not modified: its contents, and the parts of each content, are
// copied before their first change. Fields of the copy may be replaced directly; values that they
// point to are shared with the original.
type Editor struct {
	*Prompt  // the copy
	contents bool
	parts    map[int]bool // by content; true if its parts are copies
}

// Edit returns an Editor of a copy of p.
func (p *Prompt) Edit() *Editor {
	c := *p
	return &Editor{Prompt: &c}
}

// Content returns a content that may be changed, except for its parts.
func (e *Editor) Content(i int) *Content {
	if !e.contents {
		e.Contents, e.contents = slices.Clone(e.Contents), true
	}
	return &e.Contents[i]
}

// Part returns a part that may be changed. Values that it points to may be replaced but not
// changed.
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

// EditParts applies edit to copies of parts and returns them, without the parts for which edit
// returns false. It does not change parts, and returns it if there are no changes. edit may replace
// values that a part points to, but must not change them.
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

// editedParts holds the parts that edit functions get. A local part would be allocated on the heap
// for each call, because the functions get a pointer.
var editedParts = sync.Pool{New: func() any { return new(Part) }}

// same reports whether two parts have the same text and point at the same data.
func (p *Part) same(o *Part) bool {
	return p.Kind == o.Kind && p.Thought == o.Thought && p.Text == o.Text && p.Signature == o.Signature &&
		p.Blob == o.Blob && p.File == o.File && p.Call == o.Call && p.Response == o.Response && p.Cache == o.Cache &&
		len(p.Extra) == len(o.Extra) && (len(p.Extra) == 0 || &p.Extra[0] == &o.Extra[0])
}

// CurrentTurn returns the index of the first content of the model's current turn: the one after the
// last user message that has no tool result. Consecutive user contents are one message, and an
// instruction alone is none. A message with a tool result belongs to the turn, whatever else it
// contains, such as an image of the tool or a text. Providers disagree about the text; treating it
// as part of the turn keeps the signatures and thinking that a turn needs.
func CurrentTurn(contents []Content) int {
	for end := len(contents); end > 0; {
		if c := &contents[end-1]; c.Role == RoleModel || c.Instructs() {
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

// LastMessage returns the index of the first content of the user message at the end of the list. It
// is len(contents) if the list ends with a content of the model.
func LastMessage(contents []Content) int {
	begin := len(contents)
	for begin > 0 && contents[begin-1].Role != RoleModel {
		begin--
	}
	return begin
}

// HaveResult reports whether any of the contents has a tool result.
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

// The estimate where there is no tokenizer: four bytes of text are a token, and an image or a
// document is one tile.
const (
	bytesPerToken  = 4
	tokensPerMedia = 258
)

// EstimateTokens estimates the tokens of texts of this many bytes and of this many images or
// documents.
func EstimateTokens(bytes, media int) int64 {
	return int64((bytes+bytesPerToken-1)/bytesPerToken) + int64(media)*tokensPerMedia
}

// An AnswerSize counts the content of an answer, to estimate the usage that its provider has not
// reported. The zero value is empty.
type AnswerSize struct{ text, thought, media int }

// Add counts the content of an event. A frame has none of its own: its events follow it.
func (s *AnswerSize) Add(e *Event) {
	switch e.Kind {
	case EventText:
		s.text += len(e.Text)
	case EventThinking:
		s.thought += len(e.Text)
	case EventCall:
		if e.Call != nil {
			s.text += len(e.Call.Name) + len(e.Call.Args)
		}
	case EventBlob:
		s.media++
	}
}

// Estimate returns u with asked as input if it has none, and with the estimated thinking and output
// so far if it has less.
func (s *AnswerSize) Estimate(u Usage, asked int64) Usage {
	if u.Input == 0 {
		u.Input = asked
	}
	u.Thinking = max(u.Thinking, EstimateTokens(s.thought, 0))
	u.Output = max(u.Output, u.Thinking+EstimateTokens(s.text, s.media))
	return u
}

// EstimateBody estimates the tokens of a request in the provider's own dialect. It does not decode
// the body, and reads only the beginning of each block: a block that looks like base64 counts as a
// part of an image or a document.
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

// EstimateTokens estimates the tokens of the request. It is 0 if the prompt cannot be decoded.
func (r *Request) EstimateTokens() int64 {
	if undecoded := r.memory != nil && !r.memory.decoded.Load() && !r.rewritten; undecoded || r.Dialect == DialectGemini {
		return EstimateBody(r.Body) // avoids decoding a prompt that may not be needed
	}
	if prompt, err := r.Prompt(); err == nil {
		return prompt.EstimateTokens()
	}
	return 0
}

// EstimateTokens estimates the tokens of the prompt.
func (p *Prompt) EstimateTokens() int64 {
	bytes, media := 0, 0
	var parts func(list []Part)
	parts = func(list []Part) {
		for i := range list {
			switch p := &list[i]; p.Kind {
			case PartText:
				bytes += p.Text.Size()
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
