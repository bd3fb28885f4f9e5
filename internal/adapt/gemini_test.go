package adapt

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

// A prompt is written as the body of a request and compared as one: knowledge of the API is enough
// to review it.
func prompt(t testing.TB, body string) *perigee.Prompt {
	t.Helper()
	p, err := wire.DecodePrompt([]byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return p
}

func contents(turns ...string) string {
	list := make([]string, len(turns))
	for i, turn := range turns {
		role, parts, _ := strings.Cut(turn, " ")
		list[i] = `{"role":"` + role + `","parts":[` + parts + `]}`
	}
	return `{"contents":[` + strings.Join(list, ",") + `]}`
}

func call(id, name string, rest ...string) string {
	return `{"functionCall":{"id":"` + id + `","name":"` + name + `","args":{}}` + strings.Join(rest, "") + `}`
}

func result(id, name string) string {
	return `{"functionResponse":{"id":"` + id + `","name":"` + name + `","response":{"output":"x"}}}`
}

func signed(signature string) string { return `,"thoughtSignature":"` + signature + `"` }

const (
	hi      = `user {"text":"hi"}`
	skipped = "skip_thought_signature_validator"
	noted   = `[result of tool `
	pixel   = `{"inlineData":{"mimeType":"image/png","data":"aGk="}}`
)

func TestForGemini(t *testing.T) {
	withHi := func(rest string) string { return `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],` + rest + `}` }
	lostOf := func(id, name string) string {
		return `{"functionResponse":{"id":"` + id + `","name":"` + name + `","response":` + string(lost) + `}}`
	}
	flash3, pro25, flash25, image := "gemini-3-flash", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-image"
	for _, c := range []struct {
		name, model string
		in, want    string
		notes       string
	}{
		{"nothing to do", flash3, withHi(`"generationConfig":{"temperature":1}`), "", ""},

		{"empty parts and turns go", flash3, contents(`user {"text":""},{"text":"a"}`, `model {"text":""}`, `user {"text":"b"}`), contents(`user {"text":"a"}`, `user {"text":"b"}`), ""},
		{"the user comes first", flash3, contents(`model {"text":"a"}`, hi), contents(`user {"text":""}`, `model {"text":"a"}`, hi), "repaired conversation that began with the model"},
		{"a turn without a role is the user's", flash3, `{"contents":[{"parts":[{"text":"a"}]}]}`, contents(`user {"text":"a"}`), ""},
		{"thinking without a signature goes", flash3, contents(hi, `model {"text":"hm","thought":true},{"text":"a"}`, hi), contents(hi, `model {"text":"a"}`, hi), "omitted earlier thinking"},
		{"thinking with a signature stays", flash3, contents(hi, `model {"thought":true,"text":"hm"`+signed("c2ln")+`},{"text":"a"}`, hi), "", ""},
		{"a signature alone stays", flash3, contents(hi, `model {"text":"a"},{"text":""`+signed("c2ln")+`}`, hi), "", ""},
		{"only a system message", flash3, `{"systemInstruction":{"parts":[{"text":"do"}]},"contents":[]}`, contents(`user {"text":"do"}`), "mapped system instruction to a user turn"},
		{"an empty system message", flash3, `{"systemInstruction":{"parts":[{"text":""}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, contents(hi), ""},

		{"results in order", flash3, contents(hi, `model `+call("1", "f", signed("c2ln"))+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g")+`,{"text":"and"}`), "", ""},
		{"results out of order", pro25, contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("2", "g")+`,{"text":"and"},`+result("1", "f")),
			contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g")+`,{"text":"and"}`), ""},
		{"results in several turns", pro25, contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("1", "f"), `user `+result("2", "g"), hi),
			contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g"), hi), ""},
		{"calls in several turns", pro25, contents(hi, `model `+call("1", "f"), `model {"text":"and"}`, `model `+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g")),
			contents(hi, `model `+call("1", "f")+`,{"text":"and"},`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g")), ""},
		{"a result is missing", pro25, contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("2", "g")),
			contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+lostOf("1", "f")+`,`+result("2", "g")), "repaired missing result of tool f"},
		{"the user went on without waiting", pro25, contents(hi, `model `+call("1", "f"), `user {"text":"stop"}`),
			contents(hi, `model `+call("1", "f"), `user `+lostOf("1", "f")+`,{"text":"stop"}`), "repaired missing result of tool f"},
		{"calls that wait at the end", pro25, contents(hi, `model `+call("1", "f")), "", ""},
		{"a result without a call", pro25, contents(hi, `model {"text":"a"}`, `user `+result("1", "f")),
			contents(hi, `model {"text":"a"}`, `user {"text":"`+noted+`f] {\"output\":\"x\"}"}`), "repaired result without a call of tool f"},
		{"a result twice", pro25, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+`,`+result("1", "f")),
			contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), "repaired result of tool f that came twice"},
		{"a result twice, in turns of their own, with its picture", pro25, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+`,`+pixel, `user `+result("1", "f")+`,`+pixel+`,{"text":"and"}`),
			contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+`,`+pixel, `user {"text":"and"}`), "repaired result of tool f that came twice"},
		{"all results twice", pro25, contents(hi, `model `+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")+`,`+result("1", "f")+`,`+result("2", "f")),
			contents(hi, `model `+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")), "repaired result of tool f that came twice"},
		{"two results of one call", pro25, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+`,`+strings.Replace(result("1", "f"), `"x"`, `"y"`, 1)),
			contents(hi, `model `+call("1", "f"), `user `+result("1", "f")+`,{"text":"`+noted+`f] {\"output\":\"y\"}"}`), "repaired result without a call of tool f"},
		{"a result under another id", pro25, contents(hi, `model `+call("1", "f"), `user `+result("2", "f")), contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), "repaired id of the result of tool f"},
		{"a result under another name", pro25, contents(hi, `model `+call("1", "f"), `user `+result("1", "1")), contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), "renamed tool 1"},
		{"no ids at all", pro25, contents(hi, `model {"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}`, `user {"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"f","response":{"output":"2"}}}`), "", ""},
		{"results filed under the model", pro25, contents(hi, `model `+call("1", "f"), `model `+result("1", "f")), contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), ""},
		{"a result inside the model's turn", pro25, contents(hi, `model {"text":"a"},`+result("1", "f"), hi), contents(hi, `model {"text":"a"},{"text":"`+noted+`f] {\"output\":\"x\"}"}`, hi), "repaired tool result in a turn of the model's"},
		{"a call in the user's turn", pro25, contents(`user ` + call("1", "f")), contents(`user {"text":"[call of tool f] {}"}`), "repaired tool call in a turn of the user's"},
		{"a result without content", pro25, contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f"}}`), contents(hi, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{}}}`), ""},

		{"the first call of each step is signed", flash3, contents(hi, `model `+call("1", "f")+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g"), `model {"text":"a"},`+call("3", "f"), `user `+result("3", "f")),
			contents(hi, `model `+call("1", "f", signed(skipped))+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g"), `model {"text":"a"},`+call("3", "f", signed(skipped)), `user `+result("3", "f")), ""},
		{"a signature stays", flash3, contents(hi, `model `+call("1", "f", signed("c2ln")), `user `+result("1", "f")), "", ""},
		{"earlier turns need none", flash3, contents(hi, `model `+call("1", "f"), `user `+result("1", "f"), `model {"text":"done"}`, hi), "", ""},
		{"older models need none", pro25, contents(hi, `model `+call("1", "f"), `user `+result("1", "f")), "", ""},
		{"a sentinel on a second call goes", flash3, contents(hi, `model `+call("1", "f", signed(skipped))+`,`+call("2", "g", signed(skipped)), `user `+result("1", "f")+`,`+result("2", "g")),
			contents(hi, `model `+call("1", "f", signed(skipped))+`,`+call("2", "g"), `user `+result("1", "f")+`,`+result("2", "g")), ""},
		{"a sentinel on a text goes", flash3, contents(hi, `model {"text":"a"`+signed(skipped)+`}`, hi), contents(hi, `model {"text":"a"}`, hi), ""},
		{"signatures of the user's go", flash3, contents(`user {"text":"a"` + signed("c2ln") + `}`), contents(`user {"text":"a"}`), ""},

		{"illegal names", pro25, `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` + call("1", "1mcp/read") + `]},{"role":"user","parts":[` + result("1", "1mcp/read") + `]}],"tools":[{"functionDeclarations":[{"name":"1mcp/read"},{"name":"_1mcp_read"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["1mcp/read"]}}}`,
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` + call("1", "_1mcp_read_c278afb98ac6") + `]},{"role":"user","parts":[` + result("1", "_1mcp_read_c278afb98ac6") + `]}],"tools":[{"functionDeclarations":[{"name":"_1mcp_read_c278afb98ac6"},{"name":"_1mcp_read"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["_1mcp_read_c278afb98ac6"]}}}`,
			"renamed tool 1mcp/read"},
		{"the first declaration wins", flash3, withHi(`"tools":[{"functionDeclarations":[{"name":"f","description":"one"},{"name":"f","description":"two"},{"description":"nameless"}]}]`), withHi(`"tools":[{"functionDeclarations":[{"name":"f","description":"one"}]}]`),
			"dropped second declaration of tool f; dropped tool without a name"},
		{"search beside functions, new model", flash3, withHi(`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}]`), withHi(`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"includeServerSideToolInvocations":true}`), ""},
		{"search beside functions, old model", pro25, withHi(`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}]`), withHi(`"tools":[{"functionDeclarations":[{"name":"f"}]}]`), "dropped tool googleSearch beside functions"},
		{"search beside functions, old model, switched on", pro25, withHi(`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"},"includeServerSideToolInvocations":true}`), withHi(`"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`), "dropped tool googleSearch beside functions"},
		{"search alone", pro25, withHi(`"tools":[{"googleSearch":{}}]`), "", ""},
		{"a choice among no tools", pro25, withHi(`"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`), contents(hi), "dropped tool choice without tools"},
		{"JSON beside functions, new model", flash3, withHi(`"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"responseMimeType":"application/json"}`), "", ""},
		{"JSON beside functions, old model", pro25, withHi(`"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{}}`), withHi(`"tools":[{"functionDeclarations":[{"name":"f"}]}]`), "dropped response format beside tools"},
		{"a schema means JSON", pro25, withHi(`"generationConfig":{"responseJsonSchema":{}}`), withHi(`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{}}`), ""},
		{"an image model takes little", image, `{"systemInstruction":{"parts":[{"text":"paint"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"candidateCount":2,"responseMimeType":"application/json","thinkingConfig":{"includeThoughts":true}}}`,
			contents(`user {"text":"paint"}`, hi), "mapped system instruction to a user turn; dropped tools; dropped response format for an image model; dropped further candidates for an image model; dropped thinking"},

		{"more tokens than there can be", flash25, withHi(`"generationConfig":{"maxOutputTokens":128000}`), withHi(`"generationConfig":{"maxOutputTokens":65536}`), "mapped max output tokens 128000 to 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := prompt(t, c.in)
			before := wire.EncodeRequest(in)
			out, _, list := ForGemini(in, models.Of(c.model))
			if c.want == "" {
				c.want = c.in
			}
			want := string(wire.EncodeRequest(prompt(t, c.want)))
			if got := string(wire.EncodeRequest(out)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := texts(list); got != c.notes {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
			if after := wire.EncodeRequest(in); string(after) != string(before) {
				t.Errorf("the client's prompt changed to\n%s", after)
			}
		})
	}
}

func texts(notes []perigee.Note) string {
	var list []string
	for _, n := range notes {
		list = append(list, n.String())
	}
	return strings.Join(list, "; ")
}

func TestThinking(t *testing.T) {
	for _, c := range []struct{ model, in, want, notes string }{
		{"gemini-3-flash", `"thinkingLevel":"minimal"`, `"thinkingLevel":"minimal"`, ""},
		{"gemini-3-flash", `"thinkingLevel":"HIGH"`, `"thinkingLevel":"high"`, ""},
		{"gemini-3-flash", `"thinkingLevel":"xhigh"`, `"thinkingLevel":"high"`, "mapped thinking level xhigh to high"},
		{"gemini-3-flash", `"thinkingLevel":"sideways"`, `"thinkingLevel":"sideways"`, ""},
		{"gemini-3-pro-preview", `"thinkingLevel":"medium"`, `"thinkingLevel":"high"`, "mapped thinking level medium to high"},
		{"gemini-3-pro-preview", `"thinkingLevel":"minimal"`, `"thinkingLevel":"low"`, "mapped thinking level minimal to low"},
		{"gemini-3-flash", `"thinkingBudget":8192`, `"thinkingBudget":8192`, ""},
		{"gemini-3-flash", `"thinkingBudget":64000`, `"thinkingBudget":32768`, "mapped thinking budget 64000 to 32768"},
		{"gemini-3-flash", `"thinkingBudget":0`, `"thinkingBudget":128`, "mapped thinking budget 0 to 128"},
		{"gemini-3-flash", `"thinkingBudget":-1`, `"thinkingBudget":-1`, ""},
		{"gemini-3-flash", `"thinkingLevel":"none"`, `"thinkingBudget":128`, "mapped thinking budget 0 to 128"},
		{"gemini-3-flash", `"thinkingLevel":"low","thinkingBudget":9000`, `"thinkingLevel":"low"`, ""},
		{"gemini-2.5-pro", `"thinkingLevel":"low","thinkingBudget":9000`, `"thinkingBudget":9000`, ""},
		{"gemini-2.5-flash", `"thinkingLevel":"low"`, `"thinkingBudget":1024`, ""},
		{"gemini-2.5-flash", `"thinkingLevel":"high"`, `"thinkingBudget":24576`, ""},
		{"gemini-2.5-flash", `"thinkingLevel":"max"`, `"thinkingBudget":24576`, "mapped thinking level max to a budget of 24576"},
		{"gemini-2.5-flash", `"thinkingLevel":"sideways"`, ``, "dropped thinking level sideways"},
		{"gemini-2.5-flash", `"includeThoughts":true,"thinkingLevel":"none"`, `"thinkingBudget":0`, ""},
		{"gemini-2.5-flash", `"thinkingLevel":"auto"`, `"thinkingBudget":-1`, ""},
		{"gemini-2.5-flash-lite", `"thinkingBudget":100`, `"thinkingBudget":512`, "mapped thinking budget 100 to 512"},
		{"gemini-2.5-pro", `"thinkingBudget":0`, `"thinkingBudget":128`, "mapped thinking budget 0 to 128"},
		{"gemini-2.5-pro", `"includeThoughts":true`, `"includeThoughts":true`, ""},
		{"gemini-2.0-flash", `"includeThoughts":true`, ``, "dropped thinking"},
		{"gemini-2.0-flash", `"thinkingBudget":0`, ``, ""},
		{"gemini-2.5-flash", `"thinkingBudget":4000},"maxOutputTokens":1000,"x":{`, `"thinkingBudget":500},"maxOutputTokens":1000,"x":{`, "mapped thinking budget 4000 to 500"},
		{"gemini-2.5-flash-lite", `"thinkingBudget":4000},"maxOutputTokens":500,"x":{`, `"thinkingBudget":0},"maxOutputTokens":500,"x":{`, "mapped thinking budget 4000 to 0 (thinking is off, as it takes at least 512 tokens of an answer that may have 500)"},
		{"gemini-2.5-pro", `"thinkingBudget":4000},"maxOutputTokens":100,"x":{`, `"thinkingBudget":128},"maxOutputTokens":100,"x":{`, "mapped thinking budget 4000 to 128"},
	} {
		body := func(thinking string) string {
			if thinking == "" {
				return `{"contents":[]}`
			}
			return `{"contents":[],"generationConfig":{"thinkingConfig":{` + thinking + `}}}`
		}
		out, _, list := ForGemini(prompt(t, body(c.in)), models.Of(c.model))
		got, want := string(wire.EncodeRequest(out)), string(wire.EncodeRequest(prompt(t, body(c.want))))
		if got != want || texts(list) != c.notes {
			t.Errorf("%s {%s}: got\n%s (%s), want\n%s (%s)", c.model, c.in, got, texts(list), want, c.notes)
		}
	}
}

// A model that knows levels and no budgets gets the level that thinks as much.
func TestBudgetBecomesLevel(t *testing.T) {
	spec := models.Spec{Family: models.Gemini, Thinking: models.Thinking{Levels: []string{"low", "high"}}}
	for budget, want := range map[int64]string{-1: "", 0: "low", 1024: "low", 1025: "high", 1 << 20: "high"} {
		out, _, _ := ForGemini(&perigee.Prompt{Generation: perigee.Generation{Thinking: &perigee.Thinking{Budget: &budget}}}, spec)
		if got := out.Generation.Thinking; (got == nil) != (want == "") || got != nil && (got.Level != want || got.Budget != nil) {
			t.Errorf("%d: got %+v, want %q", budget, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 65)
	declared := []string{"ok", "a b", "a_b", "a/b", "a.b:c-d", "9", "", long, long + "y", "é", ".dot"}
	p := &perigee.Prompt{}
	for _, name := range declared {
		p.Tools = append(p.Tools, perigee.Tool{Function: &perigee.Function{Name: name}})
	}
	out, undo, _ := ForGemini(p, models.Of("gemini-3-flash"))
	var got []string
	for _, tool := range out.Tools {
		name := tool.Function.Name
		if !legalToolName(name) || slices.Contains(got, name) {
			t.Errorf("%q is illegal or there twice", name)
		}
		got = append(got, name)
		ev := perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: name}}
		before := ev.Call
		undo.Event(&ev)
		if before.Name != name {
			t.Errorf("the provider's event was changed")
		}
		if want := slices.DeleteFunc(slices.Clone(declared), func(s string) bool { return s == "" })[len(got)-1]; ev.Call.Name != want {
			t.Errorf("%q came back as %q, want %q", name, ev.Call.Name, want)
		}
	}
	if got[0] != "ok" || got[2] != "a_b" || got[3] == "a_b" || got[4] != "a.b:c-d" || got[5] != "_9" {
		t.Errorf("got %q", got)
	}
	again, _, _ := ForGemini(p, models.Of("gemini-3-flash"))
	if !reflect.DeepEqual(out.Tools, again.Tools) {
		t.Error("the same tools got other names")
	}
	if !undo.Needed() || (Undo{}).Needed() {
		t.Error("Needed is wrong")
	}
}

// What did not change is shared: preparing a large conversation must not copy it.
func TestSharesWhatDidNotChange(t *testing.T) {
	p := prompt(t, contents(hi, `model {"text":"a"}`, hi))
	out, _, _ := ForGemini(p, models.Of("gemini-3-flash"))
	if &out.Contents[1].Parts[0] != &p.Contents[1].Parts[0] {
		t.Error("parts were copied")
	}
}

// A hostile history cannot make the list of notes long.
func TestNotesAreBounded(t *testing.T) {
	p := &perigee.Prompt{}
	for i := range 10_000 {
		name := strings.Repeat("é", 1+i%500) + string(rune('a'+i%26))
		p.Contents = append(p.Contents, perigee.Content{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: name, Response: json.RawMessage(`{}`)}}}})
	}
	if _, _, list := ForGemini(p, models.Of("gemini-3-flash")); len(list) != 65 {
		t.Errorf("%d notes", len(list))
	}
}
