package story

import (
	"fmt"

	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
)

// A phase is a part of an answer: thinking, text, a call.
type phase struct {
	kind        string
	candidate   int
	first, last float64 // milliseconds
	bytes       int64
	text        string // its beginning
}

// phases returns the parts of an answer in order. events is the content of events.jsonl.
func phases(events []byte) (list []phase) {
	for line := range trace.Lines(events) {
		kind, text := line.Kind, line.Text
		switch kind {
		case "text", "thinking":
			if text == "" {
				continue
			}
			if n := len(list) - 1; n >= 0 && list[n].kind == kind && list[n].candidate == line.Candidate {
				list[n].add(line.MS, text)
				continue
			}
		case "call":
			kind, text = "calls", line.Name+" "+string(line.Args)
		case "blob":
			kind, text = "sends", line.MIME+", "+terminal.Size(line.Bytes*3/4)
		case "finish":
			kind, text = "finishes", terminal.Joined(line.Reason, line.Message, line.Trouble)
		default:
			continue
		}
		list = append(list, phase{kind: kind, candidate: line.Candidate,
			first: line.MS, last: line.MS, bytes: int64(len(text)), text: text})
	}
	return list
}

// add appends a piece to a text. Only the beginning of a long text is kept.
func (p *phase) add(ms float64, text string) {
	p.last = ms
	p.bytes += int64(len(text))
	if len(p.text) < 4*maxQuoted {
		p.text += text
	}
}

// shownPhases is the maximum number of parts of an answer that are printed.
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
			what += " " + clipped(p.story.Redact(part.text), 2*maxQuoted)
		}
		p.line(name, "", "%-8s %s", after(part.first), what)
		name = ""
	}
}
