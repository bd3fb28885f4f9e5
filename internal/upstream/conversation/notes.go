package conversation

import (
	"fmt"
	"strings"

	"perigee"
)

// notes collects what a text cannot carry.
type notes struct {
	list []perigee.Note
	has  map[perigee.Note]bool
}

// add adds a note once.
func (n *notes) add(action, subject string) {
	note := perigee.Note{Action: action, Subject: subject}
	if n.has[note] {
		return
	}
	if n.has == nil {
		n.has = map[perigee.Note]bool{}
	}
	n.has[note] = true
	n.list = append(n.list, note)
}

func (n *notes) drop(subject string) { n.add(perigee.NoteDropped, subject) }

// dropIf drops what is set.
func (n *notes) dropIf(set bool, subject string) {
	if set {
		n.drop(subject)
	}
}

// request notes what belongs to no message.
func (n *notes) request(p *perigee.Prompt) {
	n.dropIf(len(p.Tools) > 0, "tools")
	n.dropIf(p.ToolConfig != nil && len(p.Tools) == 0, "tool config")
	g := &p.Generation
	n.dropIf(g.Temperature != nil, "temperature")
	n.dropIf(g.TopP != nil, "top_p")
	n.dropIf(g.TopK != nil, "top_k")
	if g.MaxOutputTokens != nil {
		n.drop(fmt.Sprintf("max output tokens %d", *g.MaxOutputTokens))
	}
	n.dropIf(g.Candidates != nil && *g.Candidates > 1, "candidates after 1")
	n.dropIf(g.Seed != nil, "seed")
	n.dropIf(g.PresencePenalty != nil, "presence penalty")
	n.dropIf(g.FrequencyPenalty != nil, "frequency penalty")
	n.dropIf(len(g.Stop) > 0, "stop sequences")
	n.dropIf(g.ResponseSchema != nil || g.ResponseJSON != nil, "response schema")
	n.dropIf(g.ResponseMIME != "" && g.ResponseMIME != "text/plain", "response format "+perigee.Clip(g.ResponseMIME, maxNamed))
	n.dropIf(g.Thinking != nil && (g.Thinking.Budget != nil || g.Thinking.Level != ""), "thinking budget")
	for _, fields := range []perigee.Fields{p.Extra, g.Extra} {
		for _, f := range fields {
			n.drop(perigee.Clip(f.Name, maxNamed))
		}
	}
}

// maxNamed is how much of a name that a client chose is repeated.
const maxNamed = 60

// text is the text of a message.
func (n *notes) text(parts []perigee.Part) string {
	var texts []string
	for i := range parts {
		if text := n.part(&parts[i]); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func (n *notes) part(p *perigee.Part) string {
	switch {
	case p.Thought:
		if p.Text != "" {
			n.add(perigee.NoteOmitted, "earlier thinking")
		}
	case p.Kind == perigee.PartText:
		return p.Text
	case p.Kind == perigee.PartBlob:
		n.drop("media " + perigee.Clip(p.Blob.MIME, maxNamed))
	case p.Kind == perigee.PartFile:
		n.drop("media " + perigee.Clip(p.File.MIME, maxNamed))
	case p.Kind == perigee.PartCall:
		n.add(perigee.NoteMapped, "tool calls to text")
		return fmt.Sprintf("[call of tool %s: %s]", p.Call.Name, p.Call.Args)
	case p.Kind == perigee.PartResponse:
		n.add(perigee.NoteMapped, "tool results to text")
		if len(p.Response.Media) > 0 {
			n.drop("media of tool results")
		}
		return fmt.Sprintf("[result of tool %s: %s]", p.Response.Name, p.Response.Object())
	default:
		n.drop("other parts")
	}
	return ""
}
