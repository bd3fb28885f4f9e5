package observe

import (
	"perigee"
	"perigee/internal/dialect/gemini"
)

// frameText returns the text and the thinking of a chunk in the provider's dialect, which is passed on undecoded.
func frameText(frame []byte) (text, thinking string) {
	var d gemini.Decoder
	events, err := d.Decode(nil, frame, true)
	if err != nil {
		return "", ""
	}
	for _, e := range events {
		switch {
		case e.Candidate != 0:
		case e.Kind == perigee.EventText:
			text += e.Text
		case e.Kind == perigee.EventThinking:
			thinking += e.Text
		}
	}
	return text, thinking
}
