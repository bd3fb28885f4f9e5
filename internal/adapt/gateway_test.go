package adapt

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

// prepared returns a body as the gateway gets it, after its rules have seen it.
func prepared(t *testing.T, model, body string, opts AntigravityOptions) (string, Adapted) {
	t.Helper()
	out := ForAntigravity(prompt(t, body), models.Of(model), opts)
	encoded := wire.EncodeRequest(out.Prompt)
	if refusal := refused(t, model, encoded); refusal != nil {
		t.Errorf("%s: %s in\n%s", refusal.Rule, refusal.Message, encoded)
	}
	return string(encoded), out
}

// asSent is how a body reads when it is written as the gateway gets it.
func asSent(t *testing.T, body string) string { return string(wire.EncodeRequest(prompt(t, body))) }

// What the model calls comes back as the client declared it (traps 36, 43, 61 and 62).
func TestCallsComeBack(t *testing.T) {
	body := with(contents(hi), `"tools":[{"functionDeclarations":[{"name":"1mcp/read","parameters":{"type":"object","properties":{}}},{"name":"plain","parameters":{"type":"object","properties":{"s":{"type":"string"}}}}]}]`)
	_, out := prepared(t, claude, body, AntigravityOptions{})
	for _, c := range []struct{ name, called, args, want, wantArgs string }{
		{"trap 36: the client's name", "_1mcp_read", `{}`, "1mcp/read", `{}`},
		{"trap 43: no placeholder", "_1mcp_read", `{"_placeholder":true}`, "1mcp/read", `{}`},
		{"trap 43: of a tool that has none it is an argument", "plain", `{"_placeholder":true}`, "plain", `{"_placeholder":true}`},
		{"trap 61: no arguments are an empty object", "plain", ``, "plain", `{}`},
		{"trap 62: a string stays a string", "plain", `{"s":"{\"a\":1}"}`, "plain", `{"s":"{\"a\":1}"}`},
		{"a tool that nobody declared", "other", `{"a":1}`, "other", `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &perigee.FunctionCall{ID: "1", Name: c.called}
			if c.args != "" {
				call.Args = json.RawMessage(c.args)
			}
			ev := perigee.Event{Kind: perigee.EventCall, Call: call}
			out.Undo.Event(&ev)
			if ev.Call.Name != c.want || string(ev.Call.Args) != c.wantArgs || ev.Call.ID != "1" {
				t.Errorf("got %s(%s)", ev.Call.Name, ev.Call.Args)
			}
			if call.Name != c.called || string(call.Args) != c.args {
				t.Error("the provider's event was changed")
			}
		})
	}
	if !out.Undo.Needed() {
		t.Error("the provider's own words would do")
	}
	if _, out := prepared(t, flash, contents(hi), AntigravityOptions{}); out.Undo.Needed() {
		t.Error("the provider's own words would not do")
	}
}

// Prompt caches know a prompt by its bytes (trap 46).
func TestTrap46TheSamePromptIsTheSameBytes(t *testing.T) {
	body := with(with(contents(hi, `model `+call("1", "b.c"), `user `+result("1", "b.c")), declaring("a/b", "a:b", "A_B", "b.c")), thinkingOf("2048"))
	first, _ := prepared(t, claude, body, AntigravityOptions{})
	for range 20 {
		if again, _ := prepared(t, claude, body, AntigravityOptions{}); again != first {
			t.Fatalf("got\n%s\nafter\n%s", again, first)
		}
	}
	longer := with(with(contents(hi, `model `+call("1", "b.c"), `user `+result("1", "b.c"), `model {"text":"a"}`, hi), declaring("a/b", "a:b", "A_B", "b.c")), thinkingOf("2048"))
	tools := func(s string) string { return s[strings.Index(s, `"tools"`):] }
	if later, _ := prepared(t, claude, longer, AntigravityOptions{}); tools(later) != tools(first) {
		t.Errorf("the tools became\n%s\nof\n%s", tools(later), tools(first))
	}
}

// An owner may want Claude to see its earlier thoughts.
func TestKeepThinking(t *testing.T) {
	thought := signedThought(claudeTwice)
	for _, c := range []struct{ name, in, want, notes string }{
		{"earlier turns keep their thoughts", with(contents(hi, `model `+thought+`,{"text":"a"}`, hi), thinkingOf("2048")), "", ""},
		{"each step of a round keeps them", with(contents(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f"), `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), thinkingOf("2048")), "", ""},
		{"without thinking there are none", contents(hi, `model `+thought+`,{"text":"a"}`, hi), contents(hi, `model {"text":"a"}`, hi), "omitted earlier thinking"},
		{"a round that lost its first thoughts loses the others", with(contents(hi, `model `+thought+`,{"text":"a"}`, hi, `model `+call("1", "f"), `user `+result("1", "f"), `model `+thought+`,`+call("2", "f"), `user `+result("2", "f")), thinkingOf("2048")),
			with(contents(hi, `model `+thought+`,{"text":"a"}`, hi, `model `+call("1", "f"), `user `+result("1", "f"), `model `+call("2", "f"), `user `+result("2", "f"), `model {"text":"[The tool has answered.]"}`, goingOn), thinkingOf("2048")), "repaired round of tools whose first thoughts are lost"},
		{"thoughts of calls that the client split", with(contents(hi, `model `+thought+`,`+call("1", "f"), `model `+thought+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")), thinkingOf("2048")),
			with(contents(hi, `model `+thought+`,`+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")), thinkingOf("2048")), "omitted earlier thinking"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			got, out := prepared(t, claude, c.in, AntigravityOptions{KeepThinking: true})
			if want := asSent(t, c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if notes := texts(out.Notes); notes != c.notes {
				t.Errorf("got notes %q", notes)
			}
		})
	}
}

// A repair changes what preparation thought right, and the rules still have nothing against it.
func TestRepairs(t *testing.T) {
	thought := signedThought(claudeTwice)
	round := with(contents(hi, `model `+thought+`,{"text":"a"},`+call("1", "f"), `user `+result("1", "f")), thinkingOf("2048"))
	gemini := contents(hi, `model `+call("1", "f", signed(geminiSignature)), `user `+result("1", "f"))
	bare := contents(hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f"))
	toldRound := contents(hi, `model {"text":"[call of tool f] {}"}`, `user {"text":"[result of tool f] {\"output\":\"x\"}"}`)
	closed := with(contents(hi, `model {"text":"a"},`+call("1", "f"), `user `+result("1", "f"), `model {"text":"[The tool has answered.]"}`, goingOn), thinkingOf("2048"))
	const lostThoughts = "; repaired round of tools whose first thoughts are lost"
	for _, c := range []struct {
		name, model string
		repair      Repair
		in, want    string
		notes       string
	}{
		{"pairing: calls and results are told", claude, RepairPairing, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), toldRound, "repaired pairing of tool calls and results that the provider refused"},
		{"pairing: also for Gemini", flash, RepairPairing, gemini, toldRound, "repaired pairing of tool calls and results that the provider refused"},
		{"order: the round is closed", claude, RepairThinkingOrder, round, closed, "repaired order of thinking that the provider refused" + lostThoughts},
		{"order: also where the user went on", claude, RepairThinkingOrder, with(contents(hi, `model `+thought+`,`+call("1", "f"), `user `+result("1", "f")+`,{"text":"go on"}`), thinkingOf("2048")),
			with(contents(hi, `model `+call("1", "f"), `user `+result("1", "f"), `model {"text":"[The tool has answered.]"}`, `user {"text":"go on"}`), thinkingOf("2048")), "repaired order of thinking that the provider refused" + lostThoughts},
		{"order: without a round there is no thinking", claude, RepairThinkingOrder, with(contents(hi, `model `+thought+`,{"text":"a"}`, hi), thinkingOf("2048")), with(contents(hi, `model {"text":"a"}`, hi), `"generationConfig":{"maxOutputTokens":32000}`), "repaired order of thinking that the provider refused"},
		{"signatures: Claude begins anew", claude, RepairSignatures, round, closed, "repaired thought signatures that the provider refused" + lostThoughts},
		{"signatures: Gemini gets stand-ins", flash, RepairSignatures, gemini, bare, "repaired thought signatures that the provider refused"},
		{"signatures: and where these were refused, no calls", flash, RepairSignatures, bare, toldRound, "repaired thought signatures that the provider refused"},
		{"signatures: stand-ins in all turns", flash, RepairSignatures, contents(hi, `model `+call("0", "f"), `user `+result("0", "f"), `model {"text":"a"}`, hi, `model `+call("1", "f", signed(geminiSignature)), `user `+result("1", "f")),
			contents(hi, `model `+call("0", "f", signed(skipped)), `user `+result("0", "f"), `model {"text":"a"}`, hi, `model `+call("1", "f", signed(skipped)), `user `+result("1", "f")), "repaired thought signatures that the provider refused"},
		{"signatures: no calls in any turn", flash, RepairSignatures, contents(hi, `model `+call("0", "f"), `user `+result("0", "f"), `model {"text":"a"}`, hi),
			contents(hi, `model {"text":"[call of tool f] {}"}`, `user {"text":"[result of tool f] {\"output\":\"x\"}"}`, `model {"text":"a"}`, hi), "repaired thought signatures that the provider refused"},
		{"thinking: off", claude, RepairThinkingOff, round, with(contents(hi, `model {"text":"a"},`+call("1", "f"), `user `+result("1", "f")), `"generationConfig":{"maxOutputTokens":32000}`), "repaired thinking that the provider refused"},
		{"thinking: off in so many words", claude, RepairThinkingOff, contents(hi), with(contents(hi), `"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`), "repaired thinking that the provider refused"},
		{"schemas: plain words only", flash, RepairSchemas, with(contents(hi), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","title":"F","properties":{"a":{"type":"array","minItems":1,"items":{"type":"string","nullable":true,"enum":["x"]},"description":"list"},"title":{"type":"string","format":"date"}},"required":["a"]}}]}]`),
			with(contents(hi), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","description":"Allowed: x","enum":["x"]},"description":"list (minItems: 1)"},"title":{"type":"string","description":"format: date"}},"required":["a"]}}]}]`), "repaired tool schemas that the provider refused"},
		{"schemas: and where there were no others, types only", claude, RepairSchemas, with(contents(hi), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","description":"x"}},"required":["a"]}}]}]`),
			with(contents(hi), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]}],`+validated), "repaired tool schemas that the provider refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, out := prepared(t, c.model, c.in, AntigravityOptions{KeepThinking: true, Repair: c.repair})
			if want := asSent(t, c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if notes := texts(out.Notes); notes != c.notes {
				t.Errorf("got notes %q", notes)
			}
			if first, _ := prepared(t, c.model, c.in, AntigravityOptions{KeepThinking: true}); first == got {
				t.Error("the repair changed nothing")
			}
		})
	}
}

func TestToolsThatAreLeftOut(t *testing.T) {
	body := with(with(contents(hi, `model `+call("1", "1bad", signed(geminiSignature)), `user `+result("1", "1bad")), declaring("f", "1bad")), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["1bad"]}}`)
	got, out := prepared(t, flash, body, AntigravityOptions{WithoutTools: map[string]bool{"1bad": true, "unknown": true}})
	want := asSent(t, with(with(contents(hi, `model `+call("1", "_1bad", signed(geminiSignature)), `user `+result("1", "_1bad")), declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if notes := texts(out.Notes); notes != "dropped tool 1bad, whose schema the provider refuses; renamed tool 1bad; dropped choice of a tool that is not declared" {
		t.Errorf("got notes %q", notes)
	}
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name, model, tools string
		want               *Search
	}{
		{"beside functions", flash, `{"googleSearch":{"excludeDomains":["a.org"],"strange":1}},{"functionDeclarations":[{"name":"f"}]}`, &Search{Name: "google_search", Config: json.RawMessage(`{"excludeDomains":["a.org"]}`)}},
		{"with pages", flash, `{"googleSearch":{}},{"urlContext":{}},{"functionDeclarations":[{"name":"f"}]}`, &Search{Name: "google_search", URLs: true, Config: emptyObject}},
		{"by its old name", "gemini-2.5-pro", `{"googleSearchRetrieval":{"dynamicRetrievalConfig":{}}},{"functionDeclarations":[{"name":"f"}]}`, &Search{Name: "google_search", Config: emptyObject}},
		{"under another name", flash, `{"googleSearch":{}},{"functionDeclarations":[{"name":"Google_Search"},{"name":"google_search_2"}]}`, &Search{Name: "google_search_3", Config: emptyObject}},
		{"of a model that has none", gptoss, `{"googleSearch":{}}`, &Search{Name: "google_search", Config: emptyObject}},
		{"of a model that has it", flash, `{"googleSearch":{}}`, nil},
		{"of a model that draws", image, `{"googleSearch":{}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, out := prepared(t, c.model, with(contents(hi), `"tools":[`+c.tools+`]`), AntigravityOptions{})
			if (out.Search == nil) != (c.want == nil) {
				t.Fatalf("got %+v", out.Search)
			}
			if s := out.Search; s != nil {
				if s.Name != c.want.Name || s.URLs != c.want.URLs || string(s.Config) != string(c.want.Config) {
					t.Errorf("got %+v (%s), want %+v", s, s.Config, c.want)
				}
				if f := out.Prompt.Tools[len(out.Prompt.Tools)-1].Function; f == nil || f.Name != s.Name {
					t.Errorf("the last tool is %+v", f)
				}
			}
			for _, urls := range [][]string{nil, {"https://example.org/"}} {
				asked := ForAntigravity(SearchPrompt("what is new?", urls, out.Search), models.Of("gemini-2.5-flash"), AntigravityOptions{})
				body := wire.EncodeRequest(asked.Prompt)
				if refusal := refused(t, "gemini-2.5-flash", body); refusal != nil || len(asked.Notes) > 0 || asked.Search != nil {
					t.Errorf("%v, %v for\n%s", refusal, asked.Notes, body)
				}
				if len(asked.Prompt.Tools) != 1+len(urls) || !strings.Contains(string(body), "what is new?") || !strings.Contains(string(body), strings.Join(urls, "")) {
					t.Errorf("asked\n%s", body)
				}
			}
		})
	}
}

// A choice among the client's functions leaves the search alone, unless one of them must be called.
func TestSearchStaysAllowed(t *testing.T) {
	for mode, want := range map[string]string{"AUTO": `"allowedFunctionNames":["f","google_search"]`, "ANY": `"allowedFunctionNames":["f"]`} {
		got, _ := prepared(t, flash, with(contents(hi), `"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"`+mode+`","allowedFunctionNames":["f"]}}`), AntigravityOptions{})
		if !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s", mode, got)
		}
	}
}

// One note for each tool at most, and none for what loses nothing.
func TestNotesAboutSchemas(t *testing.T) {
	body := with(contents(hi), `"tools":[{"functionDeclarations":[`+
		`{"name":"fine","parametersJsonSchema":{"$schema":"x","type":"object","properties":{"a":{"const":"x"},"b":{"type":["string","null"]},"c":{"type":"string","minLength":1}},"additionalProperties":false}},`+
		`{"name":"1cut","parametersJsonSchema":{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}},"unheardOf":1,"unheard":2,"of":3,"at":4,"all":5}}]}]`)
	_, out := prepared(t, claude, body, AntigravityOptions{})
	if got := texts(out.Notes); got != "renamed tool 1cut; mapped schema of tool 1cut (cut $ref at a, dropped unheardOf, dropped unheard, dropped of, and more)" {
		t.Errorf("got notes %q", got)
	}
}

func TestTidy(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, `null`: ``, `"[undefined]"`: ``, ``: ``, `"null"`: `"null"`,
		`{"a":null,"b":[null,1,"[undefined]",{"c":null}],"d":"[undefined]","e":2}`: `{"b":[1,{}],"e":2}`,
		`{"a":"[undefined]"}`: `{}`, `[null,null]`: `[]`, `{"x\"y":null,"z":{"w":null,"v":true}}`: `{"z":{"v":true}}`,
	} {
		if got := string(tidy(json.RawMessage(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// What did not change is shared: preparing a large conversation must not copy it.
func TestGatewaySharesWhatDidNotChange(t *testing.T) {
	for _, model := range []string{claude, flash, "gemini-2.5-pro"} {
		signature := geminiSignature
		if model == claude {
			signature = claudeTwice
		}
		p := prompt(t, contents(hi, `model {"text":"a"},`+call("1", "f"), `user `+result("1", "f"), `model `+signedThought(signature)+`,{"text":"b"}`, hi))
		out := ForAntigravity(p, models.Of(model), AntigravityOptions{})
		for i, c := range p.Contents {
			last := len(c.Parts) - 1
			kept := out.Prompt.Contents[i].Parts
			if &kept[len(kept)-1] != &c.Parts[last] {
				t.Errorf("%s: content %d was copied", model, i)
			}
		}
	}
}
