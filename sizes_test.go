package perigee_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// What a reader can keep in mind at once.
const (
	maxPackage   = 3000 // lines of a package, without tests
	maxFunction  = 100  // lines of a function
	maxInterface = 5    // methods
	maxParams    = 5
)

// largePackages may have more lines than maxPackage: dialects are as large as the APIs that they speak, and the simulator and
// the programs that measure are no part of the product.
var largePackages = []string{"internal/dialect/", "internal/simulator", "bench", "e2e"}

// TestSizes holds the sizes in CONTRIBUTING.md.
func TestSizes(t *testing.T) {
	lines := map[string]int{}
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		lines[filepath.ToSlash(filepath.Dir(path))] += files.File(file.Pos()).LineCount() - 1
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
	for dir, count := range lines {
		if count > maxPackage && !hasAnyPrefix(dir, largePackages) {
			t.Errorf("%s has %d lines, at most %d", dir, count, maxPackage)
		}
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
