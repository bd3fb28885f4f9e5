package api

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest/await"
)

// membersOf reads {"set":{…},"default":{…},"drop":[…]}.
func membersOf(t *testing.T, text string) (m Members) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// changed returns a body, in one piece or in two, after the configured changes, and the notes.
func changed(t *testing.T, members Members, snakeCase bool, body ...string) (string, []string) {
	t.Helper()
	u := New(&Provider{}, Options{Members: members})
	defer u.Close()
	m := message{}
	for _, piece := range body {
		m.body = append(m.body, []byte(piece))
	}
	if err := u.change(&perigee.Request{}, &Wire{snakeCase: snakeCase}, &m); err != nil {
		t.Fatal(err)
	}
	var text string
	for _, piece := range m.body {
		text += string(piece)
	}
	if err := rawjson.Check([]byte(text)); err != nil {
		t.Errorf("%s becomes %s: %v", body, text, err)
	}
	var notes []string
	for _, n := range m.notes {
		notes = append(notes, n.String())
	}
	return text, notes
}

func TestMembersAreChanged(t *testing.T) {
	const isSet = ": as the configuration sets it"
	for _, test := range []struct{ members, body, want, notes string }{
		{`{}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"set":{"a":1}}`, `{ }`, `{"a":1 }`, ""},
		{`{"set":{"a":1}}`, `{"b":2}`, `{"b":2,"a":1}`, ""},
		{`{"set":{"a":1}}`, `{ "b" : 2 , "a" : 3 }`, `{ "b" : 2 , "a" : 1 }`, "mapped a" + isSet},
		{`{"set":{"a":1}}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"set":{"a":1}}`, `{"a":null}`, `{"a":1}`, ""},
		{`{"set":{"aB":1}}`, `{"aB":2,"a_b":3}`, `{"aB":1,"a_b":1}`, "mapped aB" + isSet},
		{`{"set":{"a":{"b":1}}}`, `{"a":{"c":2}}`, `{"a":{"b":1}}`, "mapped a" + isSet},
		{`{"set":{"a.b.c":1,"a.d":2}}`, `{}`, `{"a":{"b":{"c":1},"d":2}}`, ""},
		{`{"set":{"a.b.c":1,"a.d":2}}`, `{"a":{"b":{},"d":3}}`, `{"a":{"b":{"c":1},"d":2}}`, "mapped a.d" + isSet},
		{`{"set":{"a.b":1}}`, `{"a":"x"}`, `{"a":{"b":1}}`, "mapped a" + isSet},
		{`{"default":{"a":1}}`, `{"b":2}`, `{"b":2,"a":1}`, ""},
		{`{"default":{"a":1}}`, `{"a":2}`, `{"a":2}`, ""},
		{`{"default":{"a":1}}`, `{"a":null}`, `{"a":1}`, ""},
		{`{"default":{"a.b":1}}`, `{"a":{"c":2}}`, `{"a":{"c":2,"b":1}}`, ""},
		{`{"default":{"a.b":1}}`, `{"a":null}`, `{"a":{"b":1}}`, ""},
		{`{"default":{"a.b":1}}`, `{"a":[]}`, `{"a":[]}`, ""},
		{`{"drop":["a"]}`, `{"a":1}`, `{}`, "dropped a"},
		{`{"drop":["a"]}`, `{ "a" : 1 , "b" : 2}`, `{ "b" : 2}`, "dropped a"},
		{`{"drop":["a"]}`, `{"b":2, "a":1}`, `{"b":2}`, "dropped a"},
		{`{"drop":["a","b"]}`, `{"a":1,"b":2,"c":3,"_a":4,"d":5}`, `{"c":3,"_a":4,"d":5}`, "dropped a; dropped b"},
		{`{"drop":["a","b"]}`, `{"a":1,"b":2}`, `{}`, "dropped a; dropped b"},
		{`{"drop":["a.b"]}`, `{"a":{"b":1,"c":[{"b":1}]},"b":2}`, `{"a":{"c":[{"b":1}]},"b":2}`, "dropped a.b"},
		{`{"drop":["a.b"]}`, `{"a":1}`, `{"a":1}`, ""},
		{`{"drop":["a"],"set":{"c":1},"default":{"d":2}}`, `{"a":1}`, `{"c":1,"d":2}`, "dropped a"},
		{`{"drop":["a"],"set":{"b.c":1}}`, `{"a":1,"b":{"c":2}}`, `{"b":{"c":1}}`, "dropped a; mapped b.c" + isSet},
		{`{"set":{"a_b.c_d":1}}`, `{"aB":{"cD":2},"x_y":1}`, `{"aB":{"cD":1},"x_y":1}`, "mapped a_b.c_d" + isSet},
		{`{"set":{"aB.cD":1}}`, `{"a_b":{"c_d":2}}`, `{"a_b":{"c_d":1}}`, "mapped aB.cD" + isSet},
		{`{"set":{"a":1}}`, `[]`, `[]`, ""},
	} {
		members, half := membersOf(t, test.members), len(test.body)/2
		got, notes := changed(t, members, true, test.body)
		if joined, same := changed(t, members, true, test.body[:half], test.body[half:]); joined != got || !slices.Equal(same, notes) {
			t.Errorf("%s: %s in two pieces becomes %s, notes %q; want %s, %q", test.members, test.body, joined, same, got, notes)
		}
		if got != test.want || strings.Join(notes, "; ") != test.notes {
			t.Errorf("%s: %s becomes %s, notes %q; want %s, %q", test.members, test.body, got, notes, test.want, test.notes)
		}
	}
	if got, _ := changed(t, membersOf(t, `{"drop":["a_b"]}`), false, `{"a_b":1,"aB":2}`); got != `{"aB":2}` {
		t.Errorf("without the other spelling: %s", got)
	}
}

// The changes of random bodies have the same result as changes of decoded ones.
func TestMembersOfRandomBodies(t *testing.T) {
	members := membersOf(t, `{"set":{"a":1,"b.a":[2],"b.c.a":{"x":3}},"default":{"c":4,"b.d":5,"d.a":6},"drop":["e","b.e","d.e"]}`)
	random := rand.New(rand.NewPCG(1, 2))
	var object func(depth int) string
	object = func(depth int) string {
		var list []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			value := []string{"null", "7", `"s,{"`, `[1,{"a":2}]`, "{}"}[random.IntN(5)]
			if depth < 3 && random.IntN(2) == 0 {
				value = object(depth + 1)
			}
			if random.IntN(2) == 0 {
				list = append(list, fmt.Sprintf("%q : %s", name, value))
			}
		}
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return "{" + strings.Join(list, " ,\n") + "}"
	}
	for range 300 {
		body := object(0)
		got, _ := changed(t, members, false, body)
		var is, want map[string]any
		if err := json.Unmarshal([]byte(got), &is); err != nil {
			t.Fatalf("%s becomes %s: %v", body, got, err)
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		for path, value := range members.Set {
			setDecoded(want, path, value, true)
		}
		for path, value := range members.Default {
			setDecoded(want, path, value, false)
		}
		for _, path := range members.Drop {
			names := strings.Split(path, ".")
			inside, ok := want, true
			for _, name := range names[:len(names)-1] {
				if inside, ok = inside[name].(map[string]any); !ok {
					break
				}
			}
			delete(inside, names[len(names)-1])
		}
		if !reflect.DeepEqual(is, want) {
			t.Fatalf("%s becomes\n%s, want\n%v", body, got, want)
		}
	}
}

// setDecoded sets a member of a decoded body.
func setDecoded(in map[string]any, path string, value json.RawMessage, always bool) {
	name, rest, deeper := strings.Cut(path, ".")
	switch inside, ok := in[name].(map[string]any); {
	case deeper && ok:
		setDecoded(inside, rest, value, always)
	case deeper && (in[name] == nil || always):
		inside = map[string]any{}
		in[name] = inside
		setDecoded(inside, rest, value, always)
	case !deeper && (in[name] == nil || always):
		var decoded any
		_ = json.Unmarshal(value, &decoded)
		in[name] = decoded
	}
}

// The changes apply to requests for answers in every dialect, with notes for the client. A strict
// request is refused instead, and requests without such members are sent with the client's bytes.
func TestMembersOfRequests(t *testing.T) {
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		fmt.Fprint(w, finished)
	}))
	defer server.Close()
	members := Members{Set: map[string]json.RawMessage{"generationConfig.temperature": json.RawMessage("1")}, Drop: []string{"labels"}}
	u := New(Gemini, Options{Name: "s", URL: server.URL, Members: members})
	defer u.Close()
	const isSet = "mapped generationConfig.temperature: as the configuration sets it"
	half := 0.5
	prompt := &perigee.Prompt{Generation: perigee.Generation{Temperature: &half}}
	for _, test := range []struct {
		body   string
		prompt *perigee.Prompt // of a request that is encoded anew
		want   string
		notes  string
	}{
		{`{"contents":[], "labels":{"a":"b"}, "generation_config":{"temperature":0.5}}`, nil,
			`{"contents":[], "generation_config":{"temperature":1}}`, "[dropped labels " + isSet + "]"},
		{`{"generationConfig":{"temperature":1}, "contents":[]}`, nil, `{"generationConfig":{"temperature":1}, "contents":[]}`, "[]"},
		{`{}`, prompt, `{"contents":[],"generationConfig":{"temperature":1}}`, "[" + isSet + "]"},
	} {
		req := request(t, false)
		req.Body, req.Log = []byte(test.body), &perigee.CallLog{}
		if test.prompt != nil {
			req = req.WithPrompt(test.prompt)
		}
		if _, err := ask(t.Context(), u, req); err != nil {
			t.Errorf("%s: %v", test.body, err)
			continue
		}
		if got, notes := await.Receive(t, bodies, "the request"), fmt.Sprint(req.Log.AllNotes()); got != test.want || notes != test.notes {
			t.Errorf("%s becomes %s, notes %s; want %s, %s", test.body, got, notes, test.want, test.notes)
		}
	}
	strict := request(t, false)
	strict.Body, strict.Strict = []byte(`{"labels":{}}`), true
	if _, err := ask(t.Context(), u, strict); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassInvalid {
		t.Errorf("a strict request: %v", err)
	}
}

// Edits of members and of the body itself are made together. Where both change the same bytes, only the
// edit of the member is made.
func TestMemberEditsWin(t *testing.T) {
	const body = `{"a":[1,2],"b":3}`
	at := func(start, end int, text string) rawjson.Edit {
		return rawjson.Edit{Start: start, End: end, New: []byte(text)}
	}
	for _, c := range []struct {
		members, edits []rawjson.Edit
		want           string
	}{
		{nil, []rawjson.Edit{at(6, 7, "0")}, `{"a":[0,2],"b":3}`},
		{[]rawjson.Edit{at(15, 16, "4")}, nil, `{"a":[1,2],"b":4}`},
		{[]rawjson.Edit{at(15, 16, "4")}, []rawjson.Edit{at(1, 1, `"x":0,`), at(8, 9, "5")}, `{"x":0,"a":[1,5],"b":4}`},
		{[]rawjson.Edit{at(1, 11, ""), at(16, 16, `,"c":5`)}, []rawjson.Edit{at(6, 7, "0"), at(8, 9, "5"), at(15, 16, "6")}, `{"b":6,"c":5}`},
		{[]rawjson.Edit{at(5, 10, "[]")}, []rawjson.Edit{at(5, 10, "{}"), at(15, 16, "6")}, `{"a":[],"b":6}`},
	} {
		e := memberEditor{body: []byte(body), edits: c.members}
		if got := string(rawjson.Splice([]byte(body), e.over(c.edits)...)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
