package adapt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
	"perigee/internal/simulator/rules"
)

// Whatever a client sends as a conversation, the provider's rules have nothing against what we make
// of it.
func TestTheProviderAcceptsWhatWePrepare(t *testing.T) {
	for _, id := range []string{"gemini-2.5-pro", "gemini-3-flash", "gemini-2.5-flash", "gemini-3-pro-preview", "gemini-2.5-flash-lite", "claude-sonnet-4-6"} {
		i := slices.IndexFunc(rules.ModelTable(), func(m rules.Model) bool { return m.ID == id })
		if i < 0 {
			t.Fatalf("the rules do not know %s", id)
		}
		model := rules.ModelTable()[i]
		t.Run(id, rapid.MakeCheck(func(t *rapid.T) {
			p := anyPrompt(t, signatureOf(id))
			before := string(wire.EncodeRequest(p))
			out, undo, _ := ForGemini(p, models.Of(id))
			body := wire.EncodeRequest(out)
			if after := string(wire.EncodeRequest(p)); after != before {
				t.Fatalf("the client's prompt changed from\n%s\nto\n%s", before, after)
			}
			if len(out.Contents) == 0 {
				return // nothing was said; that is for the provider to refuse
			}
			input := rules.Input{Surface: rules.V1Beta, Model: model, Body: body, Switches: rules.StrictSwitches(), Verify: rules.ExampleVerify}
			if refusal := refusedByAny(input); refusal != nil {
				t.Fatalf("%s: %s\nfrom\n%s\nto\n%s", refusal.Rule, refusal.Message, before, body)
			}
			checkNames(t, p, out, undo)
			again, _, notes := ForGemini(out, models.Of(id))
			if len(notes) == 1 && notes[0].Subject == "conversation that began with the model" {
				notes = nil // the empty turn that was put there is empty for the second time, too
			}
			if twice := wire.EncodeRequest(again); string(twice) != string(body) || len(notes) > 0 {
				t.Fatalf("preparing twice made\n%s\nof\n%s\nwith %v", twice, body, notes)
			}
		}))
	}
}

// checkNames wants each function back under the name that it was declared with.
func checkNames(t *rapid.T, p, out *perigee.Prompt, undo Undo) {
	var declared []string
	for _, tool := range p.Tools {
		if f := tool.Function; f != nil && f.Name != "" && !slices.Contains(declared, f.Name) {
			declared = append(declared, f.Name)
		}
	}
	var returned []string
	for _, tool := range out.Tools {
		if tool.Function != nil {
			ev := perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: tool.Function.Name}}
			undo.Event(&ev)
			returned = append(returned, ev.Call.Name)
		}
	}
	if !slices.Equal(declared, returned) {
		t.Fatalf("declared %q, returned %q", declared, returned)
	}
}

var (
	toolNames = rapid.SampledFrom([]string{"f", "g", "h", "read file", "read_file", "1st", "_1st", "mcp.a:b", "mcp/a", "mcp\\a", "", strings.Repeat("n", 70)})
	callIDs   = rapid.SampledFrom([]string{"", "", "a", "b", "c", "toolu:1"})
)

// signatureOf is a signature that the model accepts: package thoughtsig has removed all other ones.
func signatureOf(model string) string {
	if models.Of(model).Family == models.Claude {
		return rules.ClaudeSignature
	}
	return rules.GeminiSignature
}

func anyPrompt(t *rapid.T, signature string) *perigee.Prompt {
	content := func(t *rapid.T) perigee.Content { return anyContent(t, signature) }
	p := &perigee.Prompt{Contents: rapid.SliceOfN(rapid.Custom(content), 0, 12).Draw(t, "contents")}
	if rapid.Bool().Draw(t, "system") {
		p.System = &perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain(rapid.SampledFrom([]string{"", " ", "be brief"}).Draw(t, "system text"))}}}
	}
	p.Tools = rapid.SliceOfN(rapid.Custom(anyTool), 0, 8).Draw(t, "tools")
	if rapid.Bool().Draw(t, "tool config") {
		p.ToolConfig = &perigee.ToolConfig{Mode: rapid.SampledFrom([]string{"", "AUTO", "ANY", "NONE"}).Draw(t, "mode"),
			Allowed: rapid.SliceOfN(toolNames, 0, 3).Draw(t, "allowed")}
	}
	gen := &p.Generation
	if rapid.Bool().Draw(t, "limited") {
		gen.MaxOutputTokens = new(rapid.Int64Range(1, 200_000).Draw(t, "limit"))
	}
	if rapid.Bool().Draw(t, "thinks") {
		gen.Thinking = &perigee.Thinking{Level: rapid.SampledFrom([]string{"", "none", "auto", "minimal", "low", "medium", "high", "xhigh", "max"}).Draw(t, "level")}
		if rapid.Bool().Draw(t, "has budget") {
			gen.Thinking.Budget = new(rapid.Int64Range(-1, 100_000).Draw(t, "budget"))
		}
		if rapid.Bool().Draw(t, "has include") {
			gen.Thinking.Include = new(rapid.Bool().Draw(t, "include"))
		}
	}
	if rapid.Bool().Draw(t, "schema") {
		gen.ResponseJSON = json.RawMessage(`{"type":"object"}`)
	}
	return p
}

func anyTool(t *rapid.T) perigee.Tool {
	if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		return perigee.Tool{Builtin: rapid.SampledFrom([]string{"googleSearch", "urlContext", "codeExecution"}).Draw(t, "builtin"), Config: json.RawMessage(`{}`)}
	}
	return perigee.Tool{Function: &perigee.Function{Name: toolNames.Draw(t, "function")}}
}

func anyContent(t *rapid.T, signature string) perigee.Content {
	part := func(t *rapid.T) perigee.Part { return anyPart(t, signature) }
	return perigee.Content{
		Role:  rapid.SampledFrom([]string{"user", "model", "model", ""}).Draw(t, "role"),
		Parts: rapid.SliceOfN(rapid.Custom(part), 0, 5).Draw(t, "parts"),
	}
}

func anyPart(t *rapid.T, signature string) perigee.Part {
	p := perigee.Part{Signature: rapid.SampledFrom([]string{"", "", "", signature, models.Sentinel}).Draw(t, "signature")}
	switch rapid.IntRange(0, 6).Draw(t, "part") {
	case 0:
		p.Text = perigee.Plain(rapid.SampledFrom([]string{"", " \n", "hello"}).Draw(t, "text"))
	case 1:
		p.Text, p.Thought = perigee.Plain("hm"), true
	case 2, 3:
		p.Kind, p.Call = perigee.PartCall, &perigee.FunctionCall{ID: callIDs.Draw(t, "id"), Name: toolNames.Draw(t, "name")}
	case 4, 5:
		p.Kind = perigee.PartResponse
		p.Response = &perigee.FunctionResponse{ID: callIDs.Draw(t, "id"), Name: toolNames.Draw(t, "name")}
		if rapid.Bool().Draw(t, "answered") {
			p.Response.Response = json.RawMessage(`{"output":"x"}`)
		} else if rapid.Bool().Draw(t, "answered with a text") {
			p.Response.Output = json.RawMessage(`"x"`)
		}
	default:
		p.Kind, p.Blob = perigee.PartBlob, &perigee.Blob{MIME: "image/png", Data: "AAAA"}
	}
	return p
}

// longPrompt is what an agent sends late in its work.
func longPrompt(size int) *perigee.Prompt {
	p := &perigee.Prompt{System: &perigee.Content{Parts: []perigee.Part{{Text: perigee.Plain(strings.Repeat("You are an agent. ", 300))}}}}
	for i := range 40 {
		p.Tools = append(p.Tools, perigee.Tool{Function: &perigee.Function{Name: fmt.Sprintf("tool/%d", i), JSONSchema: true,
			Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}})
	}
	output := json.RawMessage(`{"output":"` + strings.Repeat("line of a file\\n", 60) + `"}`)
	p.Contents = append(p.Contents, perigee.Content{Role: "user", Parts: []perigee.Part{{Text: perigee.Plain("fix it")}}})
	for n := 0; n < size; n += len(output) + 200 {
		id, name := fmt.Sprintf("call_%d", n), fmt.Sprintf("tool/%d", n%40)
		p.Contents = append(p.Contents,
			perigee.Content{Role: "model", Parts: []perigee.Part{{Text: perigee.Plain("thinking about it"), Thought: true}, {Text: perigee.Plain("Let me look.")},
				{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: id, Name: name, Args: json.RawMessage(`{"path":"a/b"}`)}}}},
			perigee.Content{Role: "user", Parts: []perigee.Part{{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Name: name, Response: output}}}})
	}
	return p
}

func BenchmarkForGemini(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"200KB", 200 << 10}, {"20MB", 20 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			p, spec := longPrompt(c.size), models.Of("gemini-3-flash")
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			for b.Loop() {
				ForGemini(p, spec)
			}
		})
	}
}

// Ten thousand calls at once, answered in reverse, must not take ten thousand times as long as one.
func BenchmarkManyCallsAtOnce(b *testing.B) {
	p := &perigee.Prompt{Contents: []perigee.Content{{Role: "user", Parts: []perigee.Part{{Text: perigee.Plain("go")}}}, {Role: "model"}, {Role: "user"}}}
	for i := range 10_000 {
		p.Contents[1].Parts = append(p.Contents[1].Parts, perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: fmt.Sprint(i), Name: "f"}})
		p.Contents[2].Parts = append(p.Contents[2].Parts, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: fmt.Sprint(9_999 - i), Name: "f"}})
	}
	for b.Loop() {
		ForGemini(p, models.Of("gemini-3-flash"))
	}
}
