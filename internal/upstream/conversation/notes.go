package conversation

import (
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/lib/rawjson"
)

// noteRequest notes the fields of a prompt, outside of its messages, that a text cannot carry.
func noteRequest(n *perigee.Notes, p *perigee.Prompt) {
	dropIf := func(set bool, subject string) {
		if set {
			n.Dropped(subject)
		}
	}
	dropIf(len(p.Tools) > 0, "tools")
	dropIf(p.ToolConfig != nil && len(p.Tools) == 0, "tool config")
	g := &p.Generation
	dropIf(g.Temperature != nil, "temperature")
	dropIf(g.TopP != nil, "top_p")
	dropIf(g.TopK != nil, "top_k")
	if g.MaxOutputTokens != nil {
		n.Dropped(fmt.Sprintf("max output tokens %d", *g.MaxOutputTokens))
	}
	dropIf(g.Candidates != nil && *g.Candidates > 1, "candidates after 1")
	dropIf(g.Seed != nil, "seed")
	dropIf(g.PresencePenalty != nil, "presence penalty")
	dropIf(g.FrequencyPenalty != nil, "frequency penalty")
	dropIf(len(g.Stop) > 0, "stop sequences")
	dropIf(g.ResponseSchema != nil || g.ResponseJSON != nil, "response schema")
	dropIf(g.ResponseMIME != "" && g.ResponseMIME != "text/plain", "response format "+perigee.Clip(g.ResponseMIME, maxNamed))
	dropIf(g.Thinking != nil && (g.Thinking.Budget != nil || g.Thinking.Level != ""), "thinking budget")
	dropIf(g.Logprobs != nil, "logprobs")
	adapt.NoteOptions(n, p)
	for _, fields := range []perigee.Fields{p.Extra, g.Extra} {
		for _, f := range fields {
			n.Dropped(perigee.Clip(f.Name, maxNamed))
		}
	}
}

// maxNamed is the maximum length of a client's name that is repeated in a note.
const maxNamed = 60

// textOf returns the text of a message, and notes the parts that have none.
func textOf(n *perigee.Notes, parts []perigee.Part) string {
	var texts []string
	for i := range parts {
		if text := textOfPart(n, &parts[i]); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func textOfPart(n *perigee.Notes, p *perigee.Part) string {
	switch {
	case p.Kind == perigee.PartRedacted:
		n.Dropped("redacted_thinking blocks")
	case p.Thought:
		if !p.Text.Empty() {
			n.Add(perigee.NoteOmitted, "earlier thinking")
		}
	case p.Kind == perigee.PartText:
		return rawjson.Unescaped(p.Text.Form())
	case p.Kind == perigee.PartBlob:
		n.Dropped("media " + perigee.Clip(p.Blob.MIME, maxNamed))
	case p.Kind == perigee.PartFile:
		n.Dropped("media " + perigee.Clip(p.File.MIME, maxNamed))
	case p.Kind == perigee.PartCall:
		n.Mapped("tool calls to text")
		return fmt.Sprintf("[call of tool %s: %s]", p.Call.Name, p.Call.Args)
	case p.Kind == perigee.PartResponse:
		n.Mapped("tool results to text")
		if len(p.Response.Media) > 0 {
			n.Dropped("media of tool results")
		}
		return fmt.Sprintf("[result of tool %s: %s]", p.Response.Name, p.Response.Object())
	default:
		n.Dropped("other parts")
	}
	return ""
}
