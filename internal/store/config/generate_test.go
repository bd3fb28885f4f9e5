package config

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected parts of tests")

// generated compares a file with what the tags and comments of config.go say, or writes it.
func generated(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from config.go; run go test ./internal/store/config -run Reference -update", path)
	}
}

// fieldComments are the comments of struct fields in config.go, by field path.
var fieldComments = sync.OnceValue(func() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	comments := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				comments[spec.Name.Name+"."+f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
		return true
	})
	return comments
})

func TestEveryFieldHasANameAndAComment(t *testing.T) {
	compared := 0
	for typ, fields := range allFields() {
		if len(fields) != typ.NumField() {
			t.Errorf("%s has %d of %d fields", typ, len(fields), typ.NumField())
		}
		for _, f := range fields {
			if compared++; f.name == "" || fieldComments()[f.path] == "" {
				t.Errorf("%s is called %q and explained as %q", f.path, f.name, fieldComments()[f.path])
			}
		}
	}
	if compared != len(fieldComments()) || compared == 0 {
		t.Errorf("compared %d of %d fields", compared, len(fieldComments()))
	}
}

// explain is the text of the field in the manual.
func explain(f *field) string {
	text := fieldComments()[f.path]
	if f.path == "Upstream.Kind" {
		for _, k := range Kinds {
			text += " " + k.Name + " " + k.About + "."
		}
	}
	return text
}

// allFields are the fields of the configuration and of all structs in it, by type.
func allFields() map[reflect.Type][]*field {
	all := make(map[reflect.Type][]*field)
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		all[t] = fieldsOf(t)
		for _, f := range all[t] {
			if elem := elemOf(f.typ); isMapping(elem) {
				add(elem)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	return all
}
