package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// firstWords are those of the provider's answer. They need no escapes, so every gateway sends them
// as they are.
const firstWords = "The handler reads the whole "

// beside is the dialect as any gateway may speak it, at a path of its own: the text must be the
// provider's to the last byte, but how it is cut into events, and what else they hold, is up to
// them.
func (d *dialect) beside(path string) *dialect {
	other := *d
	other.path, other.piece, other.free = path, firstWords, true
	if d.end == gemini.end {
		other.end = `"STOP"` // with or without a space before it
	}
	return &other
}

// checkText insists on the provider's text and on the end of the answer.
func checkText(d *dialect, answer []byte) error {
	text, err := spokenText(answer)
	switch {
	case err != nil:
		return err
	case text != providerText:
		return fmt.Errorf("%d bytes of text, which are not the provider's %d: %.300s", len(text), len(providerText), answer)
	case !bytes.Contains(answer, []byte(d.end)):
		return fmt.Errorf("no end: %.300s", answer[max(0, len(answer)-300):])
	}
	return nil
}

// providerText is what the provider says, put together.
var providerText = func() string {
	text, err := spokenText(bytes.Join(answerChunks, nil))
	if err != nil {
		panic("bench: the provider's own answer: " + err.Error())
	}
	return text
}()

// An event is what events of all four dialects may hold of the answer's text.
type event struct {
	Candidates []struct { // Gemini
		Content struct {
			Parts []struct {
				Text    string
				Thought bool
			}
		}
	}
	Choices []struct{ Delta struct{ Content string } } // Chat
	Type    string                                     // Responses and Messages
	Delta   json.RawMessage
}

// spokenText puts together the text of an answer's events, whatever their dialect.
func spokenText(answer []byte) (string, error) {
	var text strings.Builder
	for line := range bytes.Lines(answer) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || string(data) == "[DONE]" {
			continue
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return "", fmt.Errorf("event %.300s: %w", data, err)
		}
		if err := e.addTo(&text); err != nil {
			return "", fmt.Errorf("event %.300s: %w", data, err)
		}
	}
	return text.String(), nil
}

func (e *event) addTo(text *strings.Builder) error {
	for _, candidate := range e.Candidates {
		for _, part := range candidate.Content.Parts {
			if !part.Thought {
				text.WriteString(part.Text)
			}
		}
	}
	for _, choice := range e.Choices {
		text.WriteString(choice.Delta.Content)
	}
	switch e.Type {
	case "response.output_text.delta":
		var delta string
		if err := json.Unmarshal(e.Delta, &delta); err != nil {
			return err
		}
		text.WriteString(delta)
	case "content_block_delta":
		var delta struct{ Text string }
		if err := json.Unmarshal(e.Delta, &delta); err != nil {
			return err
		}
		text.WriteString(delta.Text)
	}
	return nil
}
