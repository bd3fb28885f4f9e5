package api

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// randomBody returns a small object with each of some members at most once, and spaces anywhere.
func randomBody(r *rand.Rand, names ...string) string {
	space := func() string { return strings.Repeat(" ", r.IntN(2)) }
	var members []string
	for _, i := range r.Perm(len(names)) {
		values := []string{"1", "null", "{}", `{ "x" : 2 }`, `{"y":[ ],"x":null}`, `[{"x":1}]`}
		if r.IntN(2) == 0 {
			members = append(members, space()+`"`+names[i]+`"`+space()+":"+space()+values[r.IntN(len(values))]+space())
		}
	}
	return space() + "{" + strings.Join(members, ",") + space() + "}" + space()
}

// randomChanges returns changes of some members: of each at most one, whole or inside.
func randomChanges(r *rand.Rand, names ...string) *Members {
	m := &Members{Set: map[string]json.RawMessage{}, Default: map[string]json.RawMessage{}}
	for _, name := range names {
		for _, path := range [][]string{{name}, {name + ".x"}, {name + ".y"}, {name + ".x", name + ".y"}, nil}[r.IntN(5)] {
			switch value := []string{"7", `{"x":8}`, `{}`}[r.IntN(3)]; r.IntN(3) {
			case 0:
				m.Set[path] = json.RawMessage(value)
			case 1:
				m.Default[path] = json.RawMessage(value)
			case 2:
				m.Drop = append(m.Drop, path)
			}
		}
	}
	return m
}

// repeats reports whether an object has a member twice.
func repeats(c *rawjson.Cursor) (twice bool) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return false
	}
	var seen []string
	for key := range c.Object() {
		twice = twice || slices.Contains(seen, string(key))
		seen = append(seen, string(key))
		twice = repeats(c) || twice
	}
	return twice
}

// Every combination of perigee's own edits of a body, of the configured ones and of rewrites inside of
// a member gives valid JSON without repeated members, with the model that perigee sets.
func TestCombinedEditsGiveValidJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rewritten := 0
	for range 20_000 {
		body := []byte(randomBody(r, "model", "a", "b", "list"))
		own := append(randomChanges(r, "a", "b").changes(false), &change{name: "model", value: json.RawMessage(`"m"`), quiet: true})
		configured := randomChanges(r, "a", "b", "c")
		m := message{body: [][]byte{body}, edits: own}
		if start, end, ok := rawjson.Find(body, "list"); ok && end-start > 2 && body[start] == '[' {
			m.rewrites = []rawjson.Edit{{Start: start + 1, End: end - 1}, {Start: end - 1, End: end - 1, New: []byte(`3`)}}
			rewritten++
		}
		u := New(&Provider{}, Options{Members: *configured})
		if err := u.change(&perigee.Request{}, &Wire{}, &m); err != nil {
			t.Fatal(err)
		}
		got := joined(m.body)
		if !json.Valid(got) {
			t.Fatalf("%s, own %s, configured %+v: got %s", body, described(own), configured, got)
		}
		var model struct{ Model string }
		if err := json.Unmarshal(got, &model); err != nil || model.Model != "m" || repeats(rawjson.NewCursor(got)) {
			t.Fatalf("%s, own %s, configured %+v: got %s", body, described(own), configured, got)
		}
	}
	if rewritten < 1000 {
		t.Errorf("only %d bodies had rewrites", rewritten)
	}
}

func described(list []*change) string {
	var words []string
	for _, c := range list {
		words = append(words, c.path+"="+string(c.value)+"{"+described(c.inside)+"}")
	}
	return strings.Join(words, " ")
}

// A member that perigee changes and the configuration, too, gets both changes.
func TestMergedChanges(t *testing.T) {
	usage := []*change{{name: "stream_options", quiet: true, inside: []*change{{name: "include_usage", value: json.RawMessage("true"), quiet: true}}}}
	for _, c := range []struct {
		members    Members
		body, want string
	}{
		{Members{}, `{ }`, `{"stream_options":{"include_usage":true} }`},
		{Members{Set: map[string]json.RawMessage{"stream_options.other": json.RawMessage("1")}}, `{}`, `{"stream_options":{"include_usage":true,"other":1}}`},
		{Members{Set: map[string]json.RawMessage{"stream_options": json.RawMessage(`{"other":1}`)}}, `{"stream_options":{"a":1}}`, `{"stream_options":{"other":1,"include_usage":true}}`},
		{Members{Default: map[string]json.RawMessage{"stream_options": json.RawMessage(`{"other":1}`)}}, `{"stream_options":{"a":1}}`, `{"stream_options":{"a":1,"include_usage":true}}`},
		{Members{Default: map[string]json.RawMessage{"stream_options": json.RawMessage(`{"other":1}`)}}, `{}`, `{"stream_options":{"other":1,"include_usage":true}}`},
		{Members{Drop: []string{"stream_options"}}, `{"stream_options":null}`, `{"stream_options":{"include_usage":true}}`},
		{Members{Drop: []string{"stream_options.a"}}, `{"stream_options":{"a":1}}`, `{"stream_options":{"include_usage":true}}`},
	} {
		m := message{body: [][]byte{[]byte(c.body)}, edits: usage}
		if err := New(&Provider{}, Options{Members: c.members}).change(&perigee.Request{}, &Wire{}, &m); err != nil {
			t.Fatal(err)
		}
		if got := string(joined(m.body)); got != c.want {
			t.Errorf("%s with %+v: got %s, want %s", c.body, c.members, got, c.want)
		}
	}
}
