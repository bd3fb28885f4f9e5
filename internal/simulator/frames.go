package simulator

import (
	"strings"

	"perigee/internal/simulator/completion"
	"perigee/internal/simulator/rules"
)

// frame is one chunk of one candidate.
type frame struct {
	candidate int
	parts     []part
	finish    string
	grounding *grounding
	// Sizes that the chunk adds to the usage; they differ from its parts when thoughts repeat.
	textBytes, thoughtBytes, images int
}

// frames cuts a candidate into chunks. Gemini puts calls that belong together into one chunk and
// the finish reason on the last text; Claude sends each call alone, the signature of a thought in
// an empty thought after it, and the finish reason with an empty text.
func (q question) frames(c candidate, index int, d delivery) []frame {
	var out []frame
	for i, p := range c.parts {
		switch {
		case p.Text != nil:
			signature := p.Signature
			if p.Thought && q.claude() {
				p.Signature = ""
			}
			out = append(out, textFrames(p, index, d)...)
			if p.Signature != signature {
				out = append(out, frame{candidate: index, parts: []part{{Text: new(""), Thought: true, Signature: signature}}})
			}
		case p.Call != nil && !q.claude() && i > 0 && c.parts[i-1].Call != nil:
			last := &out[len(out)-1]
			last.parts = append(last.parts, p)
			last.textBytes += p.bytes()
		default:
			f := frame{candidate: index, parts: []part{p}, textBytes: p.bytes()}
			if p.Inline != nil {
				f.images = 1
			}
			out = append(out, f)
		}
	}
	if len(c.parts) == 0 {
		out = append(out, frame{candidate: index})
	} else if last := c.parts[len(c.parts)-1]; q.claude() || last.Text == nil || last.Thought {
		out = append(out, frame{candidate: index, parts: []part{textPart("")}})
	}
	end := &out[len(out)-1]
	if !d.noFinish {
		end.finish = c.finish
	}
	end.grounding = c.grounding
	return out
}

func textFrames(p part, index int, d delivery) []frame {
	pieces := completion.ByWords(*p.Text)
	if d.chunks > 0 {
		pieces = completion.Evenly(*p.Text, d.chunks)
	}
	var out []frame
	sofar := ""
	for i, piece := range pieces {
		f := frame{candidate: index}
		shown := piece
		if p.Thought {
			f.thoughtBytes = len(piece)
			sofar += piece
			if d.cumulativeThoughts {
				shown = sofar
			}
		} else {
			f.textBytes = len(piece)
		}
		chunk := part{Text: &shown, Thought: p.Thought}
		if i == len(pieces)-1 {
			chunk.Signature = p.Signature
		}
		f.parts = []part{chunk}
		out = append(out, f)
	}
	return out
}

// counter keeps the running usage of a stream.
type counter struct {
	prompt, cached              int
	text, thought, images       int // bytes, bytes, images
	thoughtsCountedAsCandidates bool
	traffic                     string
}

func (c *counter) add(f frame) {
	c.text, c.thought, c.images = c.text+f.textBytes, c.thought+f.thoughtBytes, c.images+f.images
}

func (c *counter) usage() *usage {
	u := &usage{Prompt: c.prompt, Cached: c.cached, Candidates: tokens(c.text) + c.images*imageTokens, Thoughts: tokens(c.thought), Traffic: c.traffic}
	u.Total = u.Prompt + u.Candidates + u.Thoughts
	if c.thoughtsCountedAsCandidates {
		u.Candidates += u.Thoughts
	}
	return u
}

// responses turns a reply into the chunks of a stream.
func (q question) responses(r reply, count counter, head response) []response {
	if r.delivery.block != "" {
		blocked := head
		blocked.PromptFeedback, blocked.Usage = &feedback{r.delivery.block}, count.usage()
		return []response{blocked}
	}
	for _, c := range r.candidates {
		count.thought += c.hiddenThought
	}
	frames := q.interleave(r)
	var out []response
	for i, f := range frames {
		count.add(f)
		chunk := head
		chunk.Candidates = []wireCandidate{q.wire(f)}
		last := i == len(frames)-1
		if !last || !r.delivery.noFinish {
			chunk.Usage = q.usageOf(r.delivery.usage, count, i == 0, last)
		}
		out = append(out, chunk)
	}
	if r.delivery.usage == usageLate && !r.delivery.noFinish {
		late := head
		late.Usage = count.usage()
		out = append(out, late)
	}
	return out
}

// usageOf returns the usage so far, for a chunk. By default Gemini reports it in every chunk, and
// Claude in the last one, and in the first for the prompt alone.
func (q question) usageOf(mode usageMode, count counter, first, last bool) *usage {
	switch {
	case mode == usageEvery, mode == usageLast && last, mode == usageByFamily && (last || !q.claude()):
		return count.usage()
	case mode == usageByFamily && first:
		return &usage{Prompt: count.prompt, Cached: count.cached, Total: count.prompt, Traffic: count.traffic}
	}
	return nil
}

// interleave takes one chunk of each candidate in turn, as several candidates arrive.
func (q question) interleave(r reply) []frame {
	var lists [][]frame
	longest := 0
	for i, c := range r.candidates {
		lists = append(lists, q.frames(c, i, r.delivery))
		longest = max(longest, len(lists[i]))
	}
	var out []frame
	for step := range longest {
		for _, list := range lists {
			if step < len(list) {
				out = append(out, list[step])
			}
		}
	}
	return out
}

func (q question) wire(f frame) wireCandidate {
	c := wireCandidate{Content: content{Parts: f.parts, Role: "model"}, Finish: f.finish, Grounding: f.grounding}
	if len(f.parts) == 0 && brokenOff(f.finish) {
		c.Content.Role = ""
	}
	if q.surface == rules.V1Beta || q.surface == rules.Vertex && f.candidate > 0 {
		c.Index = new(f.candidate)
	}
	return c
}

// whole returns the same reply in one piece.
func (q question) whole(r reply, count counter, head response) response {
	if r.delivery.block != "" {
		return q.responses(r, count, head)[0]
	}
	for i, c := range r.candidates {
		f := frame{candidate: i, parts: c.parts, finish: c.finish, grounding: c.grounding}
		if r.delivery.noFinish {
			f.finish = ""
		}
		for _, p := range c.parts {
			switch {
			case p.Thought:
				f.thoughtBytes += p.bytes()
			default:
				f.textBytes += p.bytes()
			}
			if p.Inline != nil {
				f.images++
			}
		}
		f.thoughtBytes += c.hiddenThought
		count.add(f)
		head.Candidates = append(head.Candidates, q.wire(f))
	}
	if r.delivery.usage != usageLate && r.delivery.usage != usageNone {
		head.Usage = count.usage()
	}
	return head
}

// withoutArgs implements the fault missing_args: the provider omits args for tools without
// parameters, and clients must accept that.
func withoutArgs(parts []part) {
	for _, p := range parts {
		if p.Call != nil {
			p.Call.Args = nil
		}
	}
}

// makeMultibyte makes sure that a text has characters of two, three and four bytes to split.
func makeMultibyte(parts []part) {
	for i, p := range parts {
		if p.Text != nil && !p.Thought && !strings.Contains(*p.Text, "é漢🙂") {
			parts[i].Text = new(*p.Text + " é漢🙂")
			return
		}
	}
}
