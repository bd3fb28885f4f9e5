package rawjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/rawjson"
)

// MayHave finds every name of a text, at any depth, and none in a text with other names.
func TestMayHave(t *testing.T) {
	body := []byte(`{"model":"file","tools":[{"name":"image_url","parameters":{"properties":{"path":{}}}}],"deep":[[{"":1,"a":{"last":2}}]]}`)
	doc, err := rawjson.Open(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model", "tools", "name", "parameters", "properties", "path", "deep", "", "a", "last"} {
		if !doc.MayHave(rawjson.NewNames("x", name)) {
			t.Errorf("%q is not found", name)
		}
	}
	for _, other := range []string{"file", "image_url", "x", "las", "lastly", "input_image_mask"} {
		if doc.MayHave(rawjson.NewNames(other)) {
			t.Errorf("%q is found", other)
		}
	}
	if doc.MayHave(nil) {
		t.Error("one of no names is found")
	}
	escaped, err := rawjson.Open([]byte(`{"fil\u0065":1}`), nil)
	if err != nil || !escaped.MayHave(rawjson.NewNames("file")) {
		t.Errorf("a name with an escape is not found: %v", err)
	}
	var unknown *rawjson.Document
	if !unknown.MayHave(rawjson.NewNames("x")) {
		t.Error("nothing is known of the text")
	}
}

func TestMayHaveFindsAllNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String(), 1, 20, rapid.ID[string]).Draw(t, "names")
		members := make([]string, len(names))
		for i, name := range names {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			members[i] = string(quoted) + ":1"
		}
		doc, err := rawjson.Open([]byte("{"+strings.Join(members, ",")+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !doc.MayHave(rawjson.NewNames(name)) {
				t.Fatalf("%q is not found", name)
			}
		}
	})
}

// Of the names that a text with a hundred members does not have, few are taken for one of them.
func TestMayHaveIsRarelyWrong(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, `,"member_%d":1`, i)
	}
	doc, err := rawjson.Open([]byte("{"+text.String()[1:]+"}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i := range 10000 {
		if doc.MayHave(rawjson.NewNames(fmt.Sprintf("other_%d", i))) {
			wrong++
		}
	}
	if wrong > 100 {
		t.Errorf("%d of 10000 are taken for a member", wrong)
	}
}
