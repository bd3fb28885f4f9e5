package antigravity

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

const (
	loop = `{"contents":[{"role":"user","parts":[{"text":"go on"}]},` +
		`{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{"p":"a"}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"result":"text"}}}]}],` +
		`"tools":[{"functionDeclarations":[{"name":"read","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}]}],` +
		`"generationConfig":{"maxOutputTokens":20000,"thinkingConfig":{"thinkingBudget":8000,"includeThoughts":true}}}`
)

// The refusals that are repaired, each with what the caller is told. The provider refuses the first
// attempt whatever it is, so that what is seen is the second.
func TestKnownRefusalsAreMendedOnce(t *testing.T) {
	for _, c := range []struct{ refusal, note string }{
		{"messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: c1", "repaired pairing of tool calls and results that the provider refused"},
		{"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`", "repaired order of thinking that the provider refused"},
		{"messages.1.content.0: Invalid `signature` in `thinking` block", "repaired thought signatures that the provider refused"},
		{"Corrupted thought signature.", "repaired thought signatures that the provider refused"},
		{"When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`", "repaired thinking that the provider refused"},
		{`Invalid JSON payload received. Unknown name "minLength" at 'request.tools[0].function_declarations[0].parameters': Cannot find field.`, "repaired tool schemas that the provider refused"},
	} {
		t.Run(c.note, func(t *testing.T) {
			for _, recovery := range []bool{true, false} {
				attempts := 0
				var bodies []string
				r := newRig(t, func(o *Options) {
					o.SessionRecovery = recovery
					o.Transport = refusing(o.Transport, func(body string) string {
						bodies = append(bodies, body)
						if attempts++; attempts == 1 {
							return c.refusal
						}
						return ""
					})
				})
				heard := r.hear(prompt(t, "claude-opus-4-6-thinking", loop))
				repaired := strings.Contains(heard, c.note) && strings.HasSuffix(heard, "finish STOP")
				refused := strings.Contains(heard, "error invalid") && attempts == 1
				if recovery && (!repaired || bodies[0][150:] == bodies[1][150:]) || !recovery && !refused {
					t.Errorf("recovery %v: %d attempts, heard %s\n%s", recovery, attempts, heard, strings.Join(bodies, "\n"))
				}
			}
		})
	}
}

// A provider that wants every first call of the model's signed, whichever turn it is in: the second
// attempt has nothing that it could want a signature for, and no attempt is sent twice.
func TestSignaturesWhereverTheTurnBegins(t *testing.T) {
	const (
		call   = `{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{"p":"a"}}%s}]},`
		result = `{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"result":"text"}}}%s]}`
		ask    = `{"role":"user","parts":[{"text":"go on"}]}`
		said   = `,{"role":"model","parts":[{"text":"done"}]},`
	)
	seal := base64.StdEncoding.EncodeToString([]byte("\x12" + strings.Repeat("gemini", 10)))
	for name, contents := range map[string]string{
		"an earlier turn":                ask + "," + fmt.Sprintf(call, "") + fmt.Sprintf(result, "") + said + ask,
		"an earlier turn that is signed": ask + "," + fmt.Sprintf(call, `,"thoughtSignature":"`+seal+`"`) + fmt.Sprintf(result, "") + said + ask,
		"a picture beside the result":    ask + "," + fmt.Sprintf(call, "") + fmt.Sprintf(result, `,{"inlineData":{"mimeType":"image/png","data":"aGk="}}`),
		"a text beside the result":       ask + "," + fmt.Sprintf(call, "") + fmt.Sprintf(result, `,{"text":"and?"}`),
		"no calls at all":                ask,
	} {
		for _, refusal := range []string{"Function call is missing a thought_signature in functionCall parts.", "Corrupted thought signature."} {
			t.Run(name+", "+refusal, func(t *testing.T) {
				var sent []string
				r := newRig(t, func(o *Options) {
					o.Transport = refusing(o.Transport, func(body string) string {
						sent = append(sent, body[strings.Index(body, `"contents"`):])
						if len(sent) == 1 || strings.Contains(body, seal) || strings.Contains(body, `"args":{"p":"a"}}}`) {
							return refusal
						}
						return ""
					})
				})
				heard := r.hear(prompt(t, "gemini-3-flash", `{"contents":[`+contents+`]}`))
				if len(sent) > 2 || len(sent) == 2 && sent[0] == sent[1] {
					t.Errorf("sent\n%s", strings.Join(sent, "\n"))
				}
				if changeable := contents != ask; changeable != strings.HasSuffix(heard, "finish STOP") {
					t.Errorf("heard %s of\n%s", heard, strings.Join(sent, "\n"))
				}
			})
		}
	}
}

func TestWhatIsRefusedTwiceIsAnError(t *testing.T) {
	attempts := 0
	r := newRig(t, func(o *Options) {
		o.Transport = refusing(o.Transport, func(string) string { attempts++; return "Corrupted thought signature." })
	})
	heard := r.hear(prompt(t, "claude-opus-4-6-thinking", loop))
	if attempts != 2 || !strings.Contains(heard, "error invalid: the model does not accept the thinking") {
		t.Errorf("%d attempts, heard %s", attempts, heard)
	}
}

// A tool set that stays refused loses the one tool that is the reason, found by what the provider
// says, or else by its size; the next call knows it from the start.
func TestSchemaQuarantine(t *testing.T) {
	const tools = 13
	var declared strings.Builder
	for i := range tools {
		fmt.Fprintf(&declared, `,{"name":"tool_%d","parameters":{"type":"object","properties":{"p":{"type":"string","description":"of tool %d%s."}}}}`, i, i, strings.Repeat("!", i%10))
	}
	body := `{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}],"tools":[{"functionDeclarations":[` + declared.String()[1:] + `]}]}`
	for name, refusal := range map[string]string{
		"by its size":  "The specified schema produces a constraint that has too many states for serving.",
		"by its index": `Invalid JSON payload received. Unknown name "x" at 'request.tools[0].function_declarations[9].parameters': Cannot find field.`,
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			r := newRig(t, func(o *Options) {
				o.Transport = refusing(o.Transport, func(body string) string {
					attempts++
					if strings.Contains(body, `"tool_9"`) {
						return refusal
					}
					return ""
				})
			})
			heard := r.hear(prompt(t, "gemini-3-flash", body))
			if !strings.Contains(heard, "tool_9") || !strings.HasSuffix(heard, "text hello; finish STOP") {
				t.Errorf("heard %s", heard)
			}
			if limit := map[string]int{"by its size": 3, "by its index": 3}[name]; attempts > limit {
				t.Errorf("%d attempts, want at most %d", attempts, limit)
			}
			attempts = 0
			if heard := r.hear(prompt(t, "gemini-3-flash", body)); attempts != 1 || !strings.Contains(heard, "tool_9") {
				t.Errorf("the second time: %d attempts, heard %s", attempts, heard)
			}
		})
	}
}

// Trap 28: a model that may search and call functions searches by calling one, and the answer goes
// on.
func TestSearchBesideFunctions(t *testing.T) {
	for _, model := range []string{"gemini-3-flash", "claude-opus-4-6-thinking"} {
		t.Run(model, func(t *testing.T) {
			r := newRig(t, nil)
			heard := r.hear(prompt(t, model, `{"contents":[{"role":"user","parts":[{"text":"[[call: google_search {\"query\":\"go 1.26\"}]] [[then]] [[text: it is out]]"}]}],`+
				`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"read","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}]}]}`))
			if !strings.Contains(heard, "; grounding; ") || !strings.HasSuffix(heard, "; text it is out; finish STOP") || strings.Contains(heard, "call google_search") || strings.Count(heard, "start") != 1 {
				t.Errorf("heard %s\nasked %v", heard, r.provider.Calls())
			}
			if len(r.asked()) != 3 {
				t.Errorf("asked %v", r.asked())
			}
		})
	}
}

// An error in the words of the model, with status 200.
func TestRefusalAsAnAnswer(t *testing.T) {
	r := newRig(t, nil)
	heard := r.hear(prompt(t, "gemini-3-flash", user("[[text: This version of Antigravity is no longer supported. Please update.]] [[chunks: 5]]")))
	if heard != "error identity_refused: the provider no longer accepts this client version" {
		t.Errorf("heard %s", heard)
	}
	heard = r.hear(prompt(t, "gemini-3-flash", user("[[text: This version is fine]] [[chunks: 5]]")))
	if !strings.Contains(heard, "text This version is fine") {
		t.Errorf("heard %s", heard)
	}
}

// A client that does not want to see thinking does not, although the search needs it.
func TestSearchKeepsHiddenThoughtsToItself(t *testing.T) {
	r := newRig(t, nil)
	heard := r.hear(prompt(t, "claude-opus-4-6-thinking", `{"contents":[{"role":"user","parts":[{"text":"[[think: where to look]] [[call: google_search {\"query\":\"go 1.26\"}]] [[then]] [[text: it is out]]"}]}],`+
		`"generationConfig":{"maxOutputTokens":20000,"thinkingConfig":{"thinkingBudget":4000,"includeThoughts":false}},`+
		`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"read","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}]}]}`))
	if !strings.HasSuffix(heard, "grounding; text it is out; finish STOP") || strings.Contains(heard, "thinking ") {
		t.Errorf("heard %s", heard)
	}
	for _, call := range r.provider.Calls() {
		if call.Rule != "" {
			t.Errorf("refused by %s", call.Rule)
		}
	}
}
