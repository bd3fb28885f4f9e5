package chat

import (
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A memory has the thinking of the calls mine and sealed, and knows that the call other, and the
// thought "theirs", are another provider's.
type memory struct{}

func (memory) Foreign([]string) map[string]bool { return nil }

func (memory) Messages(list []perigee.Recalled) {
	for i := range list {
		at := &list[i]
		at.Foreign = slices.Contains(at.Sealed, "theirs") || at.Thinking == perigee.Escaped("theirs") || at.Thinking == perigee.Plain("theirs")
		for _, id := range at.Calls {
			switch id {
			case "mine":
				at.Known = []perigee.Part{{Thought: true, Text: perigee.Plain("a\n")}, {Thought: true, Text: perigee.Escaped(`\u0062`)}}
			case "sealed":
				at.Known = []perigee.Part{{Kind: perigee.PartRedacted, Thought: true, Signature: `[{"type":"reasoning.text"}]`}}
			case "other":
				at.Foreign = true
			}
		}
	}
}

// rewritten returns a body as Rewrite changes it.
func rewritten(body string, h History, recall perigee.Recall, id func(string) string) (string, []perigee.Note) {
	edits, notes := Rewrite(nil, []byte(body), h, recall, id)
	return string(rawjson.Splice([]byte(body), edits...)), notes
}

// Requests in the dialect of the server get the reasoning that it takes. All other bytes stay.
func TestRewriteReasoning(t *testing.T) {
	content := History{Form: ReasoningContent}
	keep := History{Form: ReasoningContent, Keep: true}
	details, none := History{Form: ReasoningDetails}, History{}
	complete := History{Form: ReasoningContent, Keep: true, Complete: true}
	refused := History{Form: ReasoningContent, Keep: true, Refused: true}
	const other, omitted = "dropped reasoning of another model", "omitted earlier thinking"
	calls := func(id, more string) string { return `"tool_calls": [ {"id":"` + id + `"` + more + `}]}` }
	for name, c := range map[string]struct {
		h           History
		message     string
		want, notes string // want is empty if nothing changes
	}{
		"lost thinking":                     {content, `{ "role":"assistant", ` + calls("mine", ""), `{"reasoning_content":"a\n\n\u0062", "role":"assistant", ` + calls("mine", ""), ""},
		"lost thinking in another field":    {History{Form: ReasoningField}, `{"role":"assistant",` + calls("mine", ""), `{"reasoning":"a\n\n\u0062","role":"assistant",` + calls("mine", ""), ""},
		"lost details":                      {details, `{"role":"assistant",` + calls("sealed", ""), `{"reasoning_details":[{"type":"reasoning.text"}],"role":"assistant",` + calls("sealed", ""), ""},
		"kept details":                      {details, `{"role":"assistant","reasoning_details":[],` + calls("sealed", ""), ``, ""},
		"text instead of details":           {details, `{"role":"assistant","reasoning":"x",` + calls("sealed", ""), ``, ""},
		"kept thinking":                     {keep, `{"role":"assistant","reasoning_content":"x",` + calls("mine", ""), ``, ""},
		"an empty one":                      {keep, `{"role":"assistant","reasoning_content":"",` + calls("mine", ""), ``, ""},
		"unknown thinking":                  {keep, `{"role":"assistant",` + calls("unknown", ""), `{"reasoning_content":"","role":"assistant",` + calls("unknown", ""), ""},
		"unknown thinking in another field": {keep, `{"role":"assistant","reasoning":"x",` + calls("unknown", ""), `{"reasoning_content":"","role":"assistant","reasoning":"x",` + calls("unknown", ""), ""},
		"null instead of thinking":          {keep, `{"role":"assistant","reasoning_content":null,` + calls("mine", ""), `{"role":"assistant","reasoning_content":"a\n\n\u0062",` + calls("mine", ""), ""},
		"null beside reasoning":             {keep, `{"role":"assistant","reasoning_content":null,"reasoning":"x",` + calls("unknown", `,"extra_content":{"a":1}`), `{"role":"assistant","reasoning_content":"","reasoning":"x",` + calls("unknown", `,"extra_content":{"a":1}`), ""},
		"null in another field":             {keep, `{"role":"assistant","reasoning":null,` + calls("unknown", ""), `{"reasoning_content":"","role":"assistant","reasoning":null,` + calls("unknown", ""), ""},
		"null of another provider":          {keep, `{"role":"assistant","reasoning_content":null,"reasoning":"x",` + calls("other", ""), `{"reasoning_content":"","role":"assistant",` + calls("other", ""), other},
		"unknown thinking that is not due":  {content, `{"role":"assistant",` + calls("unknown", ""), ``, ""},
		"a server without reasoning":        {none, `{"role":"assistant",` + calls("mine", ""), ``, ""},
		"no calls where all have it":        {complete, `{"role":"assistant","content":"x"}`, `{"reasoning_content":"","role":"assistant","content":"x"}`, ""},
		"an empty list as content":          {refused, `{"role":"assistant","content":[],"reasoning_content":"x"}`, `{"role":"assistant","content":[]}`, omitted},
		"no calls":                          {keep, `{"role":"assistant","content":"x"}`, ``, ""},
		"thinking of another provider":      {content, `{"role":"assistant", "reasoning":"theirs", "content":"x"}`, `{"role":"assistant","content":"x"}`, other},
		"a call of another provider":        {keep, `{"role":"assistant","reasoning_content":"x","reasoning_details":[1],"extra_content":{},` + calls("other", `,"extra_content":{"google":{"thought_signature":"s"}}`), `{"reasoning_content":"","role":"assistant","tool_calls":[{"id":"other"}]}`, other},
		"sealed by another provider":        {keep, `{"role":"assistant","content":"x","reasoning":null,"reasoning_details":[1,{"type":"reasoning.encrypted","data":"th\u0065irs"}]}`, `{"role":"assistant","content":"x"}`, other},
		"signed by another provider":        {keep, `{"role":"assistant","content":"x","reasoning_details":[{"type":"reasoning.text","data":1,"signature":"theirs"}]}`, `{"role":"assistant","content":"x"}`, other},
		"a text signed by another":          {keep, `{"role":"assistant","content":"x","extra_content":{"google":{"thought_signature":"theirs"}}}`, `{"role":"assistant","content":"x"}`, other},
		"a call signed by another":          {none, `{"role":"assistant",` + calls("unknown", `,"extra_content":{"google":{"thought_signature":"theirs"}}`), `{"role":"assistant",` + calls("unknown", ""), other},
		"sealed by the unknown":             {keep, `{"role":"assistant","content":"x","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}],"extra_content":[{"a":1}]}`, ``, ""},
		"a part of another provider":        {none, `{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"theirs"}],"closed":true},{"type":"text","text":"x"}]}`, `{"role":"assistant","content":[{"type":"text","text":"x"}]}`, other},
		"nothing but a part of another":     {none, `{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"theirs"}]}]}`, `{"role":"assistant","content":""}`, other},
		"an own signature":                  {none, `{"role":"assistant",` + calls("unknown", `,"extra_content":{"google":{"thought_signature":"s"}}`), ``, ""},
		"a model that refuses it":           {refused, `{"role":"assistant","reasoning_content":"x",` + calls("mine", ""), `{"role":"assistant","tool_calls":[ {"id":"mine"}]}`, omitted},
		"a model that refuses it has none":  {refused, `{"role":"assistant",` + calls("mine", ""), ``, ""},
		"a message of the user":             {keep, `{"role":"user","reasoning":"theirs",` + calls("other", ""), ``, ""},
		"no object":                         {keep, `1`, ``, ""},
		"unusual values":                    {keep, `{"role":1,"content":[1,{"type":2}],"tool_calls":[3,{"id":4}],"reasoning":{"a":1}}`, ``, ""},
	} {
		head, tail := `{ "a": 1, "messages": [ {"role":"user","content":"hi"} , `, ` , {"role":"tool"}], "b":2}`
		got, notes := rewritten(head+c.message+tail, c.h, memory{}, nil)
		want := c.want
		if want == "" {
			want = c.message
		}
		if !sameJSON(string(got), head+want+tail) {
			t.Errorf("%s: got  %s\nwant %s", name, got, head+want+tail)
		}
		var list []string
		for _, n := range notes {
			list = append(list, n.String())
		}
		if strings.Join(list, "; ") != c.notes {
			t.Errorf("%s: notes %v, want %s", name, list, c.notes)
		}
	}
}

// sameJSON compares texts without the spaces between tokens, of which a message that loses a member
// may lose some.
func sameJSON(a, b string) bool {
	return strings.ReplaceAll(a, " ", "") == strings.ReplaceAll(b, " ", "")
}

// Where there is no memory, a server that requires thinking gets an empty one, and nothing else
// changes, not even spaces.
func TestRewriteReasoningWithoutMemory(t *testing.T) {
	const before, behind = `{"messages" : [ {"role":"assistant" , "content" : null, "tool_calls":[ {"id" : "mine"} ] }`, ` , {"role":"assistant","content":"x"} ] }`
	got, notes := rewritten(before+behind, History{Form: ReasoningContent, Keep: true}, nil, nil)
	if want := strings.Replace(before+behind, `{"role"`, `{"reasoning_content":"","role"`, 1); string(got) != want || notes != nil {
		t.Errorf("got %s, notes %v", got, notes)
	}
	for _, body := range []string{`{}`, `{"messages":null}`, `{"messages":{}}`, `{"messages":[]}`, `[]`} {
		if got, notes := rewritten(body, History{Form: ReasoningContent, Keep: true}, nil, nil); got != body || notes != nil {
			t.Errorf("%s became %s, notes %v", body, got, notes)
		}
	}
}

// The details of an answer are sent back whole and in order, also if they came in pieces.
func TestDetailsAreCollected(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []string
		want   string
	}{
		"whole": {[]string{`[{"type":"reasoning.summary","summary":"a","format":"f","index":0},{"type":"reasoning.encrypted","data":"b","id":"rs_1","index":1}]`},
			`[{"type":"reasoning.summary","summary":"a","format":"f","index":0},{"type":"reasoning.encrypted","data":"b","id":"rs_1","index":1}]`},
		"pieces": {[]string{`[{"type":"reasoning.text","text":"a\u0062","format":null,"index":0}]`, `[{"type":"reasoning.text","text":"\"c","index":0}]`,
			`[{"type":"reasoning.text","text":"","signature":"s","format":"f","index":0}]`, `[{"type":"reasoning.text","text":"d","signature":null,"index":0}]`},
			`[{"type":"reasoning.text","text":"a\u0062\"cd","format":"f","signature":"s","index":0}]`},
		"another index": {[]string{`[{"type":"reasoning.text","text":"a","index":0}]`, `[{"type":"reasoning.text","text":"b","index":1}]`},
			`[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":1}]`},
		"sealed twice": {[]string{`[{"type":"reasoning.encrypted","data":"a"}]`, `[{"type":"reasoning.encrypted","data":"b"}]`},
			`[{"type":"reasoning.encrypted","data":"a"},{"type":"reasoning.encrypted","data":"b"}]`},
		"unusual values": {[]string{`null`, `"x"`, `[1,null]`, `[{}]`}, `[{}]`},
		"none":           {[]string{`[]`}, ``},
	} {
		var d Decoder
		var events []perigee.Event
		for _, chunk := range c.chunks {
			var err error
			if events, err = d.Decode(events, []byte(`{"choices":[{"delta":{"reasoning_details":`+chunk+`}}]}`)); err != nil {
				t.Fatal(err)
			}
		}
		events, err := d.Decode(events, []byte(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`))
		if last := events[len(events)-1]; err != nil || last.Kind != perigee.EventFinish || last.Signature != c.want {
			t.Errorf("%s: got %s, %v", name, last.Signature, err)
		}
	}
}

// Ids of calls are replaced in calls and in their results, and nowhere else.
func TestRewriteIDs(t *testing.T) {
	short := func(id string) string { return id[:min(len(id), 3)] }
	const body = `{ "id":"abcdef", "messages" : [ {"role":"user","content":"abcdef","id":"abcdef"}, 1,` +
		` {"role":"assistant","tool_calls":[ {"function":{"name":"f","id":"abcdef"}, "id" : "abcdef"}, 2, {"id":"ab"}, {"id":3}]},` +
		` {"tool_call_id":"\u0061bcdef" ,"role":"tool"} ] }`
	want := strings.NewReplacer(`"id" : "abcdef"`, `"id" : "abc"`, `"\u0061bcdef"`, `"abc"`).Replace(body)
	if got, _ := rewritten(body, History{}, nil, short); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, body := range []string{`{}`, `[]`, `{"messages":1}`, `{"messages":[{"tool_calls":1,"tool_call_id":2}]}`} {
		if got, _ := rewritten(body, History{}, nil, short); got != body {
			t.Errorf("%s became %s", body, got)
		}
	}
}
