package perigee_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

// What a reader can keep in mind at once.
const (
	maxPackages  = 100 // of the product, below internal/
	maxFunction  = 100 // lines of a function
	maxInterface = 5   // methods
	maxParams    = 5
)

// TestSizes holds the sizes in CONTRIBUTING.md.
func TestSizes(t *testing.T) {
	perigeetest.Unraced(t)
	packages := map[string]bool{}
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if dir := filepath.ToSlash(filepath.Dir(path)); isProduct(dir) && filepath.Base(path) != "doc.go" {
			packages[dir] = true
		}
		at := func(n ast.Node) token.Position { return files.Position(n.Pos()) }
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.InterfaceType:
				if count := n.Methods.NumFields(); count > maxInterface {
					t.Errorf("%s: an interface of %d methods, at most %d", at(n), count, maxInterface)
				}
			case *ast.FuncType:
				if count := n.Params.NumFields(); count > maxParams {
					t.Errorf("%s: %d parameters, at most %d", at(n), count, maxParams)
				}
			case *ast.FuncDecl:
				if count := files.Position(n.End()).Line - at(n).Line + 1; count > maxFunction {
					t.Errorf("%s: %s has %d lines, at most %d", at(n), n.Name.Name, count, maxFunction)
				}
			}
			return true
		})
	})
	if len(packages) > maxPackages {
		t.Errorf("%d packages, at most %d: merge one that has a single importer", len(packages), maxPackages)
	}
	if len(packages) < 50 {
		t.Errorf("found %d packages", len(packages))
	}
}

// A regular expression that a variable of a package holds is compiled before the main function of
// every command. The sixty of the product took 4 ms. lazyregexp.New compiles one at its first use.
func TestNoExpressionIsCompiledAtTheStart(t *testing.T) {
	lazy := 0
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		path = filepath.ToSlash(path)
		if strings.HasSuffix(path, "_test.go") || !within(path, "internal") && !within(path, "cmd") || within(path, "internal/testing") {
			return
		}
		for _, d := range file.Decls {
			if variables, ok := d.(*ast.GenDecl); !ok || variables.Tok != token.VAR {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					_, later := n.(*ast.FuncLit)
					return !later
				}
				switch from, _ := call.X.(*ast.Ident); {
				case from == nil:
				case from.Name == "regexp" && strings.HasPrefix(call.Sel.Name, "MustCompile"):
					t.Errorf("%s: use lazyregexp.New", files.Position(n.Pos()))
				case from.Name == "lazyregexp":
					lazy++
				}
				return true
			})
		}
	})
	if lazy < 30 {
		t.Errorf("found %d expressions", lazy)
	}
}

// isProduct reports whether a directory has a package of the product: not one that is only for
// tests.
func isProduct(dir string) bool {
	room := roomOf(dir)
	return within(dir, "internal") && room != "simulator" && room != "testing"
}
