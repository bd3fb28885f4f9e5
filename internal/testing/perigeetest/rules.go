package perigeetest

import (
	"os"
	"strings"
	"testing"

	"perigee"
)

// FieldRules reads a dialect's table of request fields: a line for each, with field, handling, what it becomes, and an example, which is a
// whole request body, between tabs. The first line names the columns.
func FieldRules(t testing.TB, path string) []perigee.FieldRule {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rules []perigee.FieldRule
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		columns := strings.Split(line, "\t")
		if len(columns) != 4 {
			t.Fatalf("%s:%d has %d columns, want 4", path, i+1, len(columns))
		}
		if i > 0 {
			rules = append(rules, perigee.FieldRule{
				Field: columns[0], Handling: perigee.Handling(columns[1]), Becomes: columns[2], Example: columns[3],
			})
		}
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return rules
}
