package story

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"

	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
)

// An event is a line of events.jsonl.
type event struct {
	MS        float64
	Kind      string
	Candidate int
	Text      string
	Name      string
	Args      json.RawMessage
	MIME      string
	Bytes     int64 `json:"base64_bytes"`
	Reason    string
	Message   string
	Trouble   string
	Frame     *frame
}

// A frame is a chunk in the provider's own dialect.
type frame struct {
	Candidates []struct {
		Index   int
		Content struct {
			Parts []struct {
				Text         string
				Thought      bool
				FunctionCall *struct {
					Name string
					Args json.RawMessage
				}
				InlineData *struct {
					MIMEType string
					Data     string
				}
			}
		}
	}
}

// A phase is a part of an answer: thinking, text, a call.
type phase struct {
	kind        string
	candidate   int
	first, last float64 // milliseconds
	bytes       int64
	text        string // its beginning
}

// phases are the parts of the answer in order.
func phases(events []byte) (list []phase) {
	add := func(kind string, e *event, candidate int, text string) {
		if n := len(list); n > 0 && list[n-1].kind == kind && list[n-1].candidate == candidate && (kind == "text" || kind == "thinking") {
			p := &list[n-1]
			p.last = e.MS
			p.bytes += int64(len(text))
			if len(p.text) < 4*maxQuoted {
				p.text += text
			}
			return
		}
		list = append(list, phase{kind: kind, candidate: candidate, first: e.MS, last: e.MS, bytes: int64(len(text)), text: text})
	}
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, len(events)+1)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the last line of a call that was cut off
		}
		switch e.Kind {
		case "text", "thinking":
			if e.Text != "" {
				add(e.Kind, &e, e.Candidate, e.Text)
			}
		case "call":
			add("calls", &e, e.Candidate, e.Name+" "+string(e.Args))
		case "blob":
			add("sends", &e, e.Candidate, fmt.Sprint(e.MIME, ", ", terminal.Size(e.Bytes*3/4)))
		case "frame":
			addFrame(add, &e)
		case "finish":
			add("finishes", &e, e.Candidate, terminal.Joined(e.Reason, e.Message, e.Trouble))
		}
	}
	return list
}

// addFrame adds the parts of a chunk that was passed on as it came.
func addFrame(add func(kind string, e *event, candidate int, text string), e *event) {
	if e.Frame == nil {
		return
	}
	for _, c := range e.Frame.Candidates {
		for _, part := range c.Content.Parts {
			switch {
			case part.FunctionCall != nil:
				add("calls", e, c.Index, part.FunctionCall.Name+" "+string(part.FunctionCall.Args))
			case part.InlineData != nil:
				add("sends", e, c.Index, fmt.Sprint(part.InlineData.MIMEType, ", ", terminal.Size(int64(len(part.InlineData.Data))*3/4)))
			case part.Text != "" && part.Thought:
				add("thinking", e, c.Index, part.Text)
			case part.Text != "":
				add("text", e, c.Index, part.Text)
			}
		}
	}
}

// shownPhases is how many parts of an answer are told.
const shownPhases = 30

// answer writes how the answer grew.
func (p *printer) answer() {
	if p.story.Trace == nil {
		return
	}
	events, err := p.story.Trace.Read(trace.EventsName)
	if err != nil {
		return
	}
	name := "answer"
	all := phases(events)
	for i, part := range all {
		if i == shownPhases && len(all) > shownPhases+1 {
			p.line("", "", "and %d more parts", len(all)-i)
			return
		}
		what := part.kind
		if part.candidate > 0 {
			what = fmt.Sprintf("candidate %d: %s", part.candidate+1, what)
		}
		switch part.kind {
		case "text", "thinking":
			what += fmt.Sprintf(", %s", terminal.Size(part.bytes))
			if part.last > part.first {
				what += " in " + after(part.last - part.first)[1:]
			}
			what += ": " + p.quote(part.text)
		default:
			what += " " + clipped(p.redacted(part.text), 2*maxQuoted)
		}
		p.line(name, "", "%-8s %s", after(part.first), what)
		name = ""
	}
}

func (p *printer) redacted(text string) string {
	if p.story.Redact == nil {
		return text
	}
	return p.story.Redact(text)
}
