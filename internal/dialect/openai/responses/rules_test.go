package openai

import (
	"testing"

	"perigee"
)

func TestResponsesRulesHold(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range ResponsesRules() {
		t.Run(rule.Field, func(t *testing.T) {
			if seen[rule.Field] {
				t.Errorf("%s stands twice in the table", rule.Field)
			}
			seen[rule.Field] = true
			req, err := DecodeResponses(perigee.Origin{Body: []byte(rule.Example)}, nil)
			var notes []perigee.Note
			if err == nil {
				notes = req.Notes
			}
			checkRule(t, rule, notes, err)
		})
	}
}
