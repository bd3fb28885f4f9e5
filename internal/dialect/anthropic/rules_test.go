package anthropic

import (
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/testing/adapttest"
	"perigee/internal/testing/perigeetest"
)

// TestRulesTellTheTruth decodes each example, adapts it to a Gemini model and compares the notes
// with the table.
func TestRulesTellTheTruth(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range perigeetest.FieldRules(t, "rules.tsv") {
		t.Run(rule.Field, func(t *testing.T) {
			if seen[rule.Field] || rule.Becomes == "" {
				t.Error("twice in the table, or without an explanation")
			}
			seen[rule.Field] = true
			req, _, err := decodeWhole([]byte(rule.Example))
			if rule.Handling == perigeetest.HandlingRefused {
				if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid {
					t.Errorf("%s is not refused: %v", rule.Example, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", rule.Example, err)
			}
			prompt, err := req.Prompt()
			if err != nil {
				t.Fatal(err)
			}
			notes := append(slices.Clone(req.Lost()), adapttest.GeminiNotes(prompt)...)
			switch rule.Handling {
			case perigeetest.HandlingCarried, perigeetest.HandlingAccepted:
				if len(notes) > 0 {
					t.Errorf("%s: there are notes: %v", rule.Example, notes)
				}
			default:
				named := slices.ContainsFunc(notes, func(n perigee.Note) bool {
					same := n.Action == string(rule.Handling) || n.Action == perigee.NoteRepaired && rule.Handling == perigeetest.HandlingMapped
					field, _, _ := strings.Cut(n.Subject, " ") // behind it stands what it became
					return same && (n.Subject == rule.Field || field == rule.Field)
				})
				if len(notes) != 1 || !named {
					t.Errorf("%s: want one note that %s was %s, got %v", rule.Example, rule.Field, rule.Handling, notes)
				}
			}
		})
	}
}
