package edit_test

import (
	"reflect"
	"testing"

	"perigee/internal/lib/edit"
)

// Any file is edited and reverted, or refused. After that it has the same content.
func FuzzApply(f *testing.F) {
	for _, format := range []edit.Format{edit.JSON, edit.TOML, edit.YAML, edit.Dotenv} {
		for _, text := range []string{
			"", "{}", `{"env": {"A": 1, /* b */}, // c` + "\n}", "a = 1\n[env]\nA = 'x' # y\n", "env:\n  A: |\n    x\n", "- a\n", "A='b\nc'\r\n", "\uFEFFA=1",
			"a: &x {b: 1}\nenv: *x\n", "[[env]]\n", "env.A = 1", "? a\n: b\n", "env: !!map {}", "\"env\" : \t{ }", "env:\n- name=A: 1\n",
		} {
			f.Add(string(format), []byte(text), "env", "A", "value")
		}
	}
	f.Fuzz(func(t *testing.T, format string, src []byte, first, second, value string) {
		before, err := edit.Parse(edit.Format(format), src)
		if err != nil {
			t.Skip()
		}
		path := edit.Path{first, second}
		if format == string(edit.Dotenv) {
			path = edit.Path{"ENV"}
		}
		got, undo, err := edit.Apply(edit.Format(format), src, []edit.Setting{{Path: path, Value: value}})
		if err != nil {
			t.Skip()
		}
		tree, err := edit.Parse(edit.Format(format), got)
		if have, _ := edit.Get(tree, path); err != nil || have != any(value) {
			t.Fatalf("%s is %#v (%v) in %q", path, have, err, got)
		}
		back, err := edit.Revert(edit.Format(format), got, undo)
		if err != nil {
			t.Fatalf("revert of %q: %v", got, err)
		}
		if after, err := edit.Parse(edit.Format(format), back.Data); err != nil || !reflect.DeepEqual(after, before) {
			t.Fatalf("reverted to %q (%v), from %q", back.Data, err, src)
		}
	})
}
