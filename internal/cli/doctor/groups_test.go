package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryNameIsInAGroup reads the names of checks from the source: a result with a name in no group
// would not be printed.
func TestEveryNameIsInAGroup(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doctor.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Name") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		name, _ := strconv.Unquote(literal.Value)
		found++
		if !slices.ContainsFunc(Groups, func(g Group) bool { return g.Has(name) }) {
			t.Errorf("%s (%q) is in no group", spec.Names[0].Name, name)
		}
		return true
	})
	if found < 15 {
		t.Errorf("found %d names", found)
	}
}
