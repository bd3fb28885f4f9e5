package adapt

import (
	"slices"
	"strings"
	"testing"

	"perigee"
)

func declare(names ...string) *perigee.Prompt {
	p := &perigee.Prompt{}
	for _, name := range names {
		p.Tools = append(p.Tools, perigee.Tool{Function: &perigee.Function{Name: name}})
	}
	return p
}

// Each illegal name gets a legal one that no other function has, and is found again by it.
func TestCollect(t *testing.T) {
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		names    nameMap
		declared []string
		replaced []string
	}{
		"legal":             {nameMap{}, []string{"a", "A", "a.b:c-d", "_"}, nil},
		"illegal":           {nameMap{}, []string{"ok", "a b", "a_b", "9", long, long + "y", "é", ".dot"}, []string{"a b", "9", long, long + "y", "é", ".dot"}},
		"without dots":      {nameMap{NoPunctuation: true}, []string{"a.b", "a_b", "a:b"}, []string{"a.b", "a:b"}},
		"different in case": {nameMap{FoldCase: true}, []string{"read", "Read", "READ"}, []string{"Read", "READ"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.names
			if got := n.Collect(declare(c.declared...)); !slices.Equal(got, c.replaced) || len(n.back) != len(got) {
				t.Errorf("replaced %q, want %q", got, c.replaced)
			}
			seen := map[string]bool{}
			for _, declared := range c.declared {
				wire := n.Wire(declared)
				if !n.legal(wire) || seen[n.key(wire)] || n.Client(wire) != declared {
					t.Errorf("%q became %q, which became %q", declared, wire, n.Client(wire))
				}
				seen[n.key(wire)] = true
			}
		})
	}
}

// Beyond maxRenamed names nothing is remembered, and a name still gets the same legal replacement
// each time.
func TestVeryManyNames(t *testing.T) {
	var declared []string
	for i := range maxRenamed + 10 {
		declared = append(declared, "tool "+strings.Repeat("+", i%50)+string(rune('a'+i%26))+strings.Repeat("é", i/50))
	}
	slices.Sort(declared)
	declared = slices.Compact(declared)
	if len(declared) <= maxRenamed {
		t.Fatalf("only %d names", len(declared))
	}
	var n nameMap
	if got := n.Collect(declare(declared...)); len(got) != maxRenamed {
		t.Errorf("%d are remembered", len(got))
	}
	last := declared[len(declared)-1]
	if wire := n.Wire(last); !legalToolName(wire) || wire != n.Wire(last) {
		t.Errorf("%q became %q", last, wire)
	}
}
