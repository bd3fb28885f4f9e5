package schema

import (
	"strings"
	"testing"
)

// Every keyword is found by its name and its other spellings, and no two keywords share one.
func TestKeywordsAreFoundByTheirNames(t *testing.T) {
	spellings := 0
	for _, row := range keywords {
		names := strings.Fields(row.name)
		for _, name := range append(names, strings.Fields(row.alias)...) {
			spellings++
			if k := byName[name]; k == nil || k.alias != row.alias || name != k.name && !strings.Contains(k.alias, name) {
				t.Errorf("%q is found as %+v", name, k)
			}
		}
		if row.alias != "" && len(names) > 1 {
			t.Errorf("%s share the alias %s", row.name, row.alias)
		}
	}
	if spellings != len(byName) || spellings < 70 {
		t.Errorf("%d spellings, %d of them in the table", spellings, len(byName))
	}
}

// The rows of the table do not contradict themselves.
func TestKeywordsMakeSense(t *testing.T) {
	for _, k := range keywords {
		if k.claude && k.fits == nil || k.silent && (k.fits != nil || k.implies != kindUnknown) {
			t.Errorf("%s: %+v", k.name, k)
		}
	}
}
