package openai

import (
	"strings"
	"testing"

	"perigee"
)

// Each table tells the truth about the decoder beside it.
func TestChatRulesHold(t *testing.T) {
	decoders := map[string]struct {
		rules  []perigee.FieldRule
		decode func(perigee.Origin) ([]perigee.Note, error)
	}{
		"chat": {ChatRules(), func(o perigee.Origin) ([]perigee.Note, error) {
			req, err := DecodeChat(o)
			if err != nil {
				return nil, err
			}
			return req.Notes, nil
		}},
		"embeddings": {EmbeddingsRules(), func(o perigee.Origin) ([]perigee.Note, error) {
			req, _, err := DecodeEmbeddings(o)
			if err != nil {
				return nil, err
			}
			return req.Notes, nil
		}},
		"images": {ImagesRules(), func(o perigee.Origin) ([]perigee.Note, error) {
			req, _, err := DecodeImages(o)
			if err != nil {
				return nil, err
			}
			return req.Notes, nil
		}},
	}
	for api, d := range decoders {
		for _, rule := range d.rules {
			t.Run(api+"/"+rule.Field, func(t *testing.T) {
				notes, err := d.decode(perigee.Origin{Body: []byte(rule.Example)})
				checkRule(t, rule, notes, err)
			})
		}
	}
}

func checkRule(t *testing.T, rule perigee.FieldRule, notes []perigee.Note, err error) {
	t.Helper()
	if (err != nil) != (rule.Handling == perigee.HandlingRefused) {
		t.Fatalf("%s, but the error is %v", rule.Handling, err)
	}
	switch rule.Handling {
	case perigee.HandlingCarried, perigee.HandlingAccepted:
		if len(notes) > 0 {
			t.Errorf("%s, with the notes %v", rule.Handling, notes)
		}
	case perigee.HandlingMapped, perigee.HandlingDropped:
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Subject, rule.Field) {
			t.Errorf("%s, with the notes %v", rule.Handling, notes)
		}
	}
}
