package adapt

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/simulator/rules"
)

// Signatures as the gateway issues them: Claude's are encoded twice, and some clients keep them
// encoded once.
var (
	geminiSignature = base64.StdEncoding.EncodeToString([]byte("\x12" + strings.Repeat("gemini", 10)))
	claudeOnce      = base64.StdEncoding.EncodeToString([]byte("\x12" + strings.Repeat("claude", 10)))
	claudeTwice     = base64.StdEncoding.EncodeToString([]byte(claudeOnce))
)

func verify(signature string) (rules.Family, bool) {
	switch signature {
	case claudeTwice:
		return rules.Claude, true
	case geminiSignature:
		return rules.Gemini, true
	}
	return "", false
}

// gatewayModels are the families that the gateway has.
var gatewayModels = []string{"claude-sonnet-4-6", "claude-opus-4-6-thinking", "gemini-3-flash", "gemini-pro-agent", "gemini-3.5-flash-low",
	"gemini-3.1-flash-lite", "gemini-3-pro-preview", "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3.1-flash-image", "gpt-oss-120b-medium"}

// refused asks the provider's rules about a prompt in its envelope.
func refused(t rapid.TB, model string, body []byte) *rules.Refusal {
	t.Helper()
	i := slices.IndexFunc(rules.ModelTable(), func(m rules.Model) bool { return m.ID == model })
	if i < 0 {
		t.Fatalf("the rules do not know %s", model)
	}
	switches := rules.StrictSwitches()
	switches.FunctionResponseRole, switches.RejectDuplicateSpelling = "user", true // where observers disagree, what all of them take
	envelope := slices.Concat([]byte(`{"project":"p","model":"`+model+`","userAgent":"antigravity","requestType":"agent","request":`), body, []byte("}"))
	input := rules.Input{Surface: rules.V1Internal, Model: rules.ModelTable()[i], Body: envelope, Switches: switches, Verify: verify}
	if refusal := rules.CheckEnvelope(input); refusal != nil {
		return refusal
	}
	return refusedByAny(input)
}

// refusedByAny asks the rules under each reading of where a turn ends.
func refusedByAny(input rules.Input) *rules.Refusal {
	for _, continues := range []string{"media", "anything", "nothing"} {
		input.Switches.TurnContinuesWith = continues
		if _, refusal := rules.Check(input); refusal != nil {
			return refusal
		}
	}
	return nil
}

// newKeeper returns what stands before the upstream in the daemon: it has seen the signatures of
// both families, and takes away those that are not the model's.
func newKeeper(t testing.TB) (vet func(p *perigee.Prompt, model string) *perigee.Prompt) {
	t.Helper()
	memory := thoughtsig.NewMemory(thoughtsig.Options{})
	seen := &source{}
	keeper := memory.Around(seen)
	for model, signature := range map[string]string{"claude-sonnet-4-6": claudeTwice, "gemini-3-flash": geminiSignature} {
		seen.events = []perigee.Event{{Kind: perigee.EventSignature, Signature: signature}, {Kind: perigee.EventFinish, Finish: &perigee.Finish{}}}
		for range keeper.Stream(t.Context(), requestOf(&perigee.Prompt{}, model)) {
		}
	}
	seen.events = nil
	return func(p *perigee.Prompt, model string) *perigee.Prompt {
		for range keeper.Stream(context.Background(), requestOf(p, model)) {
		}
		return seen.asked
	}
}

func requestOf(p *perigee.Prompt, model string) *perigee.Request {
	origin := perigee.Origin{ID: "r", Dialect: perigee.DialectOpenAIChat}
	return perigee.NewRequest(origin, model, true, func() (*perigee.Prompt, error) { return p, nil })
}

type source struct {
	events []perigee.Event
	asked  *perigee.Prompt
}

func (s *source) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		s.asked, _ = req.Prompt()
		for _, ev := range s.events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Whatever a client sends as a conversation, to whichever model, the gateway's rules have nothing
// against what we make of it: not at first, and not after any repair.
func TestTheGatewayAcceptsWhatWePrepare(t *testing.T) {
	for _, model := range gatewayModels {
		vet := newKeeper(t)
		t.Run(model, rapid.MakeCheck(func(t *rapid.T) {
			p := vet(anyGatewayPrompt(t), model)
			before := string(wire.EncodeRequest(p))
			opts := AntigravityOptions{KeepThinking: rapid.Bool().Draw(t, "keep thinking"), Repair: Repair(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 4, 8, 16, 31}).Draw(t, "repair"))}
			if rapid.IntRange(0, 3).Draw(t, "leave out") == 0 {
				opts.WithoutTools = map[string]bool{"f": true, "read file": true}
			}
			out := ForAntigravity(p, models.Of(model), opts)
			body := wire.EncodeRequest(out.Prompt)
			if after := string(wire.EncodeRequest(p)); after != before {
				t.Fatalf("the client's prompt changed from\n%s\nto\n%s", before, after)
			}
			if len(out.Prompt.Contents) == 0 {
				return // nothing was said; that is for the provider to refuse
			}
			if refusal := refused(t, model, body); refusal != nil {
				t.Fatalf("%s: %s\nfrom\n%s\nto\n%s", refusal.Rule, refusal.Message, before, body)
			}
			checkGatewayNames(t, p, out, opts)
			if again := wire.EncodeRequest(ForAntigravity(p, models.Of(model), opts).Prompt); string(again) != string(body) {
				t.Fatalf("the same prompt became\n%s\nand\n%s", body, again)
			}
			twice := ForAntigravity(out.Prompt, models.Of(model), AntigravityOptions{KeepThinking: opts.KeepThinking})
			if opts.Repair == 0 && string(wire.EncodeRequest(twice.Prompt)) != string(body) {
				t.Fatalf("preparing twice made\n%s\nof\n%s", wire.EncodeRequest(twice.Prompt), body)
			}
		}))
	}
}

// checkGatewayNames wants each function back under the name that it was declared with.
func checkGatewayNames(t *rapid.T, p *perigee.Prompt, out Adapted, opts AntigravityOptions) {
	var declared, returned []string
	for _, tool := range p.Tools {
		if f := tool.Function; f != nil && f.Name != "" && !slices.Contains(declared, f.Name) && !opts.WithoutTools[f.Name] {
			declared = append(declared, f.Name)
		}
	}
	folded := map[string]bool{}
	for _, tool := range out.Prompt.Tools {
		if tool.Function == nil {
			continue
		}
		name := tool.Function.Name
		if folded[strings.ToLower(name)] {
			t.Fatalf("%q is there twice", name)
		}
		folded[strings.ToLower(name)] = true
		if out.Search != nil && name == out.Search.Name {
			continue
		}
		ev := perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: name}}
		out.Undo.Event(&ev)
		returned = append(returned, ev.Call.Name)
		if string(ev.Call.Args) != "{}" {
			t.Fatalf("a call without arguments came back with %q", ev.Call.Args)
		}
	}
	if len(out.Prompt.Tools) > 0 && !slices.Equal(declared, returned) {
		t.Fatalf("declared %q, returned %q", declared, returned)
	}
}

var (
	gatewayNames = rapid.SampledFrom([]string{"f", "F", "g", "read file", "read_file", "1st", "_1st", "mcp.a:b", "mcp_a_b", "mcp/a", "", "google_search", strings.Repeat("n", 70)})
	gatewayRoles = rapid.SampledFrom([]string{"user", "user", "user", "model", "model", "model", "", "assistant", "system", "function"})
	anySchema    = rapid.SampledFrom([]string{"", "{}", "null", "true", `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":["string","null"],"pattern":"x"}},"required":["a","b"],"additionalProperties":false}`,
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`, `{"type":"object","properties":{"l":{"type":"array"},"o":{"type":"object"},"u":{"anyOf":[{"type":"string"},{"type":"integer","minimum":1}]}}}`})
)

func anyGatewayPrompt(t *rapid.T) *perigee.Prompt {
	p := &perigee.Prompt{Contents: anyConversation(t)}
	if rapid.Bool().Draw(t, "system") {
		p.System = &perigee.Content{Role: rapid.SampledFrom([]string{"", "user", "system"}).Draw(t, "system role"),
			Parts: rapid.SliceOfN(rapid.Custom(anyGatewayPart), 0, 3).Draw(t, "system parts"), Extra: anyExtra(t)}
	}
	p.Tools = rapid.SliceOfN(rapid.Custom(anyGatewayTool), 0, 6).Draw(t, "tools")
	if rapid.Bool().Draw(t, "tool config") {
		p.ToolConfig = &perigee.ToolConfig{Mode: rapid.SampledFrom([]string{"", "AUTO", "any", "ANY", "NONE", "VALIDATED", undefined}).Draw(t, "mode"),
			Allowed: rapid.SliceOfN(gatewayNames, 0, 3).Draw(t, "allowed"), Extra: anyExtra(t), Calling: anyExtra(t)}
	}
	p.Generation = anyGeneration(t)
	p.Extra = anyExtra(t)
	return p
}

func anyGeneration(t *rapid.T) (gen perigee.Generation) {
	number := func(label string, from, to int64) *int64 {
		if rapid.Bool().Draw(t, "no "+label) {
			return nil
		}
		return new(rapid.Int64Range(from, to).Draw(t, label))
	}
	gen.MaxOutputTokens, gen.Candidates, gen.Seed = number("limit", -1, 200_000), number("candidates", -1, 10), number("seed", -1<<40, 1<<40)
	gen.Stop = rapid.SliceOfN(rapid.SampledFrom([]string{"", " ", "END", undefined}), 0, 2).Draw(t, "stop")
	gen.Modalities = rapid.SliceOfN(rapid.SampledFrom([]string{"TEXT", "IMAGE", "AUDIO", undefined}), 0, 2).Draw(t, "modalities")
	if rapid.Bool().Draw(t, "thinks") {
		gen.Thinking = &perigee.Thinking{Level: rapid.SampledFrom([]string{"", "none", "auto", "minimal", "low", "medium", "high", "xhigh", "max", "sideways"}).Draw(t, "level"),
			Budget: number("budget", -1, 100_000), Extra: anyExtra(t)}
		if rapid.Bool().Draw(t, "has include") {
			gen.Thinking.Include = new(rapid.Bool().Draw(t, "include"))
		}
	}
	gen.ResponseMIME = rapid.SampledFrom([]string{"", "", "application/json", undefined}).Draw(t, "mime")
	for _, s := range []*json.RawMessage{&gen.ResponseSchema, &gen.ResponseJSON} {
		if text := anySchema.Draw(t, "answer"); text != "" && rapid.IntRange(0, 2).Draw(t, "structured") == 0 {
			*s = json.RawMessage(text)
		}
	}
	gen.Extra = anyExtra(t)
	return gen
}

// anyExtra is what clients of the provider's own dialect may add anywhere.
func anyExtra(t *rapid.T) (fields perigee.Fields) {
	if rapid.IntRange(0, 4).Draw(t, "plain") > 0 {
		return nil
	}
	all := []perigee.Field{{Name: "cacheControl", Value: json.RawMessage(`{"type":"ephemeral"}`)}, {Name: "messages", Value: json.RawMessage(`[]`)},
		{Name: "labels", Value: json.RawMessage(`{"a":"b","c":null}`)}, {Name: "sessionId", Value: json.RawMessage(`"[undefined]"`)}, {Name: "cachedContent", Value: json.RawMessage(`null`)},
		{Name: "imageConfig", Value: json.RawMessage(`{"aspectRatio":"7:3","imageSize":"4k","other":1}`)}, {Name: "includeServerSideToolInvocations", Value: json.RawMessage(`true`)},
		{Name: "videoMetadata", Value: json.RawMessage(`{"fps":1}`)}, {Name: "mediaResolution", Value: json.RawMessage(`"MEDIA_RESOLUTION_LOW"`)}, {Name: "displayName", Value: json.RawMessage(`"x"`)},
		{Name: "executableCode", Value: json.RawMessage(`{"language":"PYTHON","code":"1"}`)}, {Name: "responseJsonSchema", Value: json.RawMessage(`{"type":["string","null"]}`)}}
	for range rapid.IntRange(1, 4).Draw(t, "how many") {
		fields = append(fields, rapid.SampledFrom(all).Draw(t, "field"))
	}
	return fields
}

func anyGatewayTool(t *rapid.T) perigee.Tool {
	if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		return perigee.Tool{Builtin: rapid.SampledFrom([]string{"googleSearch", "googleSearchRetrieval", "urlContext", "codeExecution", "googleMaps", "unheardOf"}).Draw(t, "builtin"),
			Config: json.RawMessage(rapid.SampledFrom([]string{"{}", "null", `{"excludeDomains":["a.org"],"other":1}`}).Draw(t, "config"))}
	}
	f := &perigee.Function{Name: gatewayNames.Draw(t, "function"), JSONSchema: rapid.Bool().Draw(t, "json schema"), Extra: anyExtra(t)}
	if text := anySchema.Draw(t, "schema"); text != "" {
		f.Parameters = json.RawMessage(text)
	}
	return perigee.Tool{Function: f}
}

// anyConversation is either anything, or what an agent would send, with things missing.
func anyConversation(t *rapid.T) []perigee.Content {
	if rapid.Bool().Draw(t, "anything") {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) perigee.Content {
			return perigee.Content{Role: gatewayRoles.Draw(t, "role"), Parts: rapid.SliceOfN(rapid.Custom(anyGatewayPart), 0, 5).Draw(t, "parts"), Extra: anyExtra(t)}
		}), 0, 12).Draw(t, "contents")
	}
	var list []perigee.Content
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		list = append(list, perigee.Content{Role: "user", Parts: []perigee.Part{{Text: perigee.Plain("do it")}}})
		for range rapid.IntRange(0, 3).Draw(t, "rounds") {
			list = append(list, anyRound(t)...)
		}
		if rapid.Bool().Draw(t, "answered") {
			list = append(list, perigee.Content{Role: "model", Parts: []perigee.Part{{Text: perigee.Plain("done"), Signature: anySignature.Draw(t, "signature")}}})
		}
	}
	return list
}

var anySignature = rapid.SampledFrom([]string{"", "", geminiSignature, claudeTwice, claudeOnce, models.Sentinel, "garbage!"})

// anyRound is what the model calls and what the tools say, with signatures of either family or
// none, and results that may be lost, late, or together with something else.
func anyRound(t *rapid.T) []perigee.Content {
	model, user := perigee.Content{Role: "model"}, perigee.Content{Role: "user"}
	if rapid.Bool().Draw(t, "thinks") {
		signature := anySignature.Draw(t, "signature")
		model.Parts = append(model.Parts, perigee.Part{Text: perigee.Plain("hm"), Thought: true, Signature: signature})
		if signature == "" {
			model.Parts = append(model.Parts, perigee.Part{Thought: rapid.Bool().Draw(t, "thought"), Signature: anySignature.Draw(t, "late signature")})
		}
	}
	if rapid.Bool().Draw(t, "talks") {
		model.Parts = append(model.Parts, perigee.Part{Text: perigee.Plain("let me see")})
	}
	for range rapid.IntRange(1, 3).Draw(t, "calls") {
		id, name := callIDs.Draw(t, "id"), gatewayNames.Draw(t, "name")
		model.Parts = append(model.Parts, perigee.Part{Kind: perigee.PartCall, Call: &perigee.FunctionCall{ID: id, Name: name}, Signature: anySignature.Draw(t, "signature")})
		if rapid.IntRange(0, 5).Draw(t, "lost") > 0 {
			user.Parts = append(user.Parts, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: id, Name: name, Response: json.RawMessage(`{"output":"x"}`)}})
		}
		if rapid.IntRange(0, 5).Draw(t, "picture") == 0 {
			user.Parts = append(user.Parts, perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "AAAA"}})
		}
	}
	return []perigee.Content{model, user}
}

func anyGatewayPart(t *rapid.T) perigee.Part {
	p := perigee.Part{Signature: anySignature.Draw(t, "signature"), Extra: anyExtra(t), Thought: rapid.IntRange(0, 3).Draw(t, "thought") == 0}
	switch rapid.IntRange(0, 7).Draw(t, "part") {
	case 0, 1:
		p.Text = perigee.Plain(rapid.SampledFrom([]string{"", " \n", "hello"}).Draw(t, "text"))
	case 2:
		p.Kind, p.Call = perigee.PartCall, &perigee.FunctionCall{ID: callIDs.Draw(t, "id"), Name: gatewayNames.Draw(t, "name"), Extra: anyExtra(t)}
		if args := rapid.SampledFrom([]string{"", `{"a":1}`, `"{\"a\":1}"`, `7`, `"[undefined]"`}).Draw(t, "args"); args != "" {
			p.Call.Args = json.RawMessage(args)
		}
	case 3, 4:
		p.Kind, p.Response = perigee.PartResponse, &perigee.FunctionResponse{ID: callIDs.Draw(t, "id"), Name: gatewayNames.Draw(t, "name"), Extra: anyExtra(t)}
		if result := rapid.SampledFrom([]string{"", `{"output":"x"}`, `"x"`, `[1]`}).Draw(t, "result"); result != "" {
			p.Response.Response = json.RawMessage(result)
		} else if rapid.Bool().Draw(t, "answered with a text") {
			p.Response.Output = json.RawMessage(`"x"`)
		}
	case 5:
		p.Kind, p.Blob = perigee.PartBlob, &perigee.Blob{MIME: rapid.SampledFrom([]string{"", "image/png", "audio/wav"}).Draw(t, "type"), Data: rapid.SampledFrom([]string{"AAAA", "data:image/png;base64,AAAA"}).Draw(t, "data"), Extra: anyExtra(t)}
	case 6:
		p.Kind, p.File = perigee.PartFile, &perigee.File{MIME: "image/png", URI: "https://example.org/a.png", Extra: anyExtra(t)}
	default:
		p.Kind = perigee.PartOther
	}
	return p
}
