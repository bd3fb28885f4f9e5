package perigeetest

import (
	"os"
	"strings"
	"testing"
)

// A Handling is the treatment of a field of a client's request.
type Handling string

// The ways to handle a field.
const (
	HandlingCarried  Handling = "carried"  // the model sees it as the client meant it
	HandlingMapped   Handling = "mapped"   // the model sees the nearest thing; there is a note
	HandlingDropped  Handling = "dropped"  // it is not sent; there is a note
	HandlingAccepted Handling = "accepted" // it asks for nothing that could be missed: no note
	HandlingRefused  Handling = "refused"  // the request is an error
)

// A FieldRule documents one field of a dialect's requests. Dialects keep theirs as a table, from
// which docs/compatibility.md is made, and a test sends each Example to check that the table is
// true.
type FieldRule struct {
	Field    string // as the client writes it: "tools[].strict"
	Handling Handling
	Becomes  string // where it goes, or why it does not
	Example  string // a whole request body that uses the field
}

// FieldRules reads a dialect's table of request fields: a line for each, with field, handling, what
// it becomes, and an example, which is a whole request body, between tabs. The first line names the
// columns.
func FieldRules(t testing.TB, path string) []FieldRule {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rules []FieldRule
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		columns := strings.Split(line, "\t")
		if len(columns) != 4 {
			t.Fatalf("%s:%d has %d columns, want 4", path, i+1, len(columns))
		}
		if i > 0 {
			rules = append(rules, FieldRule{
				Field: columns[0], Handling: Handling(columns[1]), Becomes: columns[2], Example: columns[3],
			})
		}
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return rules
}
