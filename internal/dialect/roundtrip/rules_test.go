package roundtrip

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/chat"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/testing/adapttest"
	"perigee/internal/testing/perigeetest"
)

// Each table of the OpenAI dialect tells the truth about its decoder, and about the request that a
// Gemini model gets.
func TestRulesHold(t *testing.T) {
	decoders := map[string]struct {
		rules  []perigeetest.FieldRule
		decode func(perigee.Origin) ([]perigee.Note, error)
	}{
		"chat": {perigeetest.FieldRules(t, "../openai/chat/rules.tsv"), func(o perigee.Origin) ([]perigee.Note, error) {
			req, err := chat.DecodeRequest(o)
			if err != nil {
				return nil, err
			}
			if _, err := req.Prompt(); err != nil {
				return nil, err
			}
			return adapted(t, req.Request), nil
		}},
		"responses": {perigeetest.FieldRules(t, "../openai/responses/rules.tsv"), func(o perigee.Origin) ([]perigee.Note, error) {
			req, err := responses.DecodeRequest(o, storedExample)
			if err != nil {
				return nil, err
			}
			if _, err := req.Prompt(); err != nil {
				return nil, err
			}
			return adapted(t, req.Request), nil
		}},
		"embeddings": {perigeetest.FieldRules(t, "../openai/embeddings_rules.tsv"), func(o perigee.Origin) ([]perigee.Note, error) {
			req, _, err := openai.DecodeEmbeddings(o)
			if err != nil {
				return nil, err
			}
			_, notes, err := req.Decode()
			return notes, err
		}},
		"images": {perigeetest.FieldRules(t, "../openai/images_rules.tsv"), func(o perigee.Origin) ([]perigee.Note, error) {
			req, err := openai.DecodeImages(o)
			if err != nil {
				return nil, err
			}
			prompt, err := req.Prompt()
			if err != nil {
				return nil, err
			}
			return prompt.Lost, nil
		}},
	}
	for api, d := range decoders {
		seen := map[string]bool{}
		for _, rule := range d.rules {
			t.Run(api+"/"+rule.Field, func(t *testing.T) {
				if seen[rule.Field] && api == "responses" {
					t.Errorf("%s is twice in the table", rule.Field)
				}
				seen[rule.Field] = true
				notes, err := d.decode(perigee.Origin{Body: []byte(rule.Example)})
				checkRule(t, rule, notes, err)
			})
		}
	}
}

// adapted returns the notes of a request after it was adapted to a Gemini model.
func adapted(t *testing.T, req *perigee.Request) []perigee.Note {
	t.Helper()
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(req.Lost()), adapttest.GeminiNotes(prompt)...)
}

// storedExample finds the one response that examples of the table refer to.
func storedExample(id string) (*perigee.StoredResponse, error) {
	if id != "resp_stored" {
		return nil, perigee.Errorf(perigee.ClassNotFound, "there is no response %s", id)
	}
	return &perigee.StoredResponse{
		Input:  json.RawMessage(`[{"id":"msg_stored_i0","type":"message","role":"user","content":"hello"}]`),
		Output: json.RawMessage(`[]`),
	}, nil
}

func checkRule(t *testing.T, rule perigeetest.FieldRule, notes []perigee.Note, err error) {
	t.Helper()
	if (err != nil) != (rule.Handling == perigeetest.HandlingRefused) {
		t.Fatalf("%s, but the error is %v", rule.Handling, err)
	}
	switch rule.Handling {
	case perigeetest.HandlingCarried, perigeetest.HandlingAccepted:
		if len(notes) > 0 {
			t.Errorf("%s, with the notes %v", rule.Handling, notes)
		}
	case perigeetest.HandlingMapped, perigeetest.HandlingDropped:
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Subject, rule.Field) {
			t.Errorf("%s, with the notes %v", rule.Handling, notes)
		}
	}
}
