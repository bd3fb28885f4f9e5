package config

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected parts of tests")

// The manual is the comments of the fields, made available to a program that has no source.
func TestManualIsTheCommentsOfTheFields(t *testing.T) {
	want := manualFromComments(t)
	if *update {
		if err := os.WriteFile("manual.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Skip("manual.go was written")
	}
	got, err := os.ReadFile("manual.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("manual.go does not say what the comments in config.go say; run this test with -update")
	}
}

func TestEveryFieldIsExplained(t *testing.T) {
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		for _, f := range fieldsOf(typ) {
			if f.name == "" || manual[f.path] == "" {
				t.Errorf("%s has no name in the file or no comment", f.path)
			}
			elem := f.typ
			if elem.Kind() == reflect.Slice {
				elem = elem.Elem()
			}
			if isStruct(elem) {
				check(elem)
			}
		}
	}
	check(reflect.TypeFor[Config]())
}

func manualFromComments(t *testing.T) []byte {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString("// Code generated from the comments in config.go by the tests with -update. DO NOT EDIT.\n\npackage config\n\n")
	b.WriteString("// manual explains each field, by type and name.\nvar manual = map[string]string{\n")
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range typ.Fields.List {
				text := strings.Join(strings.Fields(f.Doc.Text()), " ")
				fmt.Fprintf(&b, "%q: %q,\n", spec.Name.Name+"."+f.Names[0].Name, text)
			}
		}
		return false
	})
	b.WriteString("}\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return source
}
