package rules

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// judge runs both entry points as the server does.
func judge(in Input) (*Parsed, *Refusal) {
	if refusal := CheckEnvelope(in); refusal != nil {
		return nil, refusal
	}
	return Check(in)
}

func TestEveryRuleRefusesItsFailingExampleOnly(t *testing.T) {
	seen := map[string]bool{}
	step := 0
	for _, rule := range Table() {
		t.Run(rule.Name, func(t *testing.T) {
			if seen[rule.Name] || rule.Section == "" || rule.Text == "" || rule.Step < step {
				t.Errorf("entry is incomplete, repeated or out of order: %+v", rule)
			}
			seen[rule.Name], step = true, rule.Step
			if parsed, refusal := judge(rule.Pass.Input()); refusal != nil || parsed == nil {
				t.Errorf("passing example: refused by %+v", refusal)
			}
			parsed, refusal := judge(rule.Fail.Input())
			if refusal == nil {
				t.Fatal("failing example: not refused")
			}
			if parsed != nil {
				t.Error("failing example: parsed although refused")
			}
			if refusal.Rule != rule.Name {
				t.Errorf("failing example: refused by %s: %s", refusal.Rule, refusal.Message)
			}
			if refusal.Message != rule.Text {
				t.Errorf("failing example:\n got %q\nwant %q", refusal.Message, rule.Text)
			}
			if refusal.Status < 400 || refusal.Code == "" {
				t.Errorf("failing example: status %d, code %q", refusal.Status, refusal.Code)
			}
		})
	}
}

// Without this, a rule whose check is shadowed by an earlier one would look tested by its
// neighbours.
func TestFailingExamplesPassWithoutTheirRule(t *testing.T) {
	for _, rule := range Table() {
		if rule.check == nil || strings.HasPrefix(rule.Name, "request.") {
			continue // the front end cannot read it, so no rule can judge it
		}
		r := read(rule.Fail.Input())
		for _, other := range Table() {
			if other.check == nil || other.Name == rule.Name || other.Step > rule.Step {
				continue
			}
			if refusal := other.check(r); refusal != nil && !twins[rule.Name+" "+other.Name] {
				t.Errorf("%s: its failing example is also refused by %s", rule.Name, other.Name)
			}
		}
	}
}

// twins are pairs of which the first's example cannot avoid the second: results in two contents are
// both miscounted in the first and out of place in the second.
var twins = map[string]bool{"gemini.response_count gemini.response_unexpected": true}

func TestEverySwitchOfRequestsMatters(t *testing.T) {
	sentinelThinking := `{` + turnsJSON(`user [{"text":"a"}]`, `model [{"text":"hm","thought":true,"thoughtSignature":"skip_thought_signature_validator"},{"text":"b"}]`, `user [{"text":"c"}]`) + `}`
	oneResult := `{` + turnsJSON(`user [{"text":"a"}]`, `model [{"functionCall":{"name":"f"},"thoughtSignature":"`+GeminiSignature+`"}]`, `user [{"functionResponse":{"name":"f","response":{}}}]`) + `}`
	textBeside := `{` + turnsJSON(`user [{"text":"a"}]`, `model [{"functionCall":{"name":"f"}}]`, `user [{"functionResponse":{"name":"f","response":{}}},{"text":"b"}]`) + `}`
	mediaBeside := strings.Replace(textBeside, `{"text":"b"}`, `{"inlineData":{"mimeType":"image/png","data":"aGk="}}`, 1)
	union := declare(`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}`)
	brokenUnion := declare(`{"type":"object","properties":{"a":{"oneOf":[{"$ref":"x"}]}}}`)
	tests := []struct {
		name    string // of the switch
		example Example
		flip    func(*Switches)
		pass    bool // with the default
	}{
		{"accept_thinking_level", internal(think(`"thinkingLevel":"high"`)), func(s *Switches) { s.AcceptThinkingLevel = false }, true},
		{"function_response_role", internal(oneResult), func(s *Switches) { s.FunctionResponseRole = "model" }, true},
		{"reject_duplicate_spelling", internal(`{` + hi + `,"toolConfig":{},"tool_config":{}}`), func(s *Switches) { s.RejectDuplicateSpelling = true }, true},
		{"sentinel_on_all_calls_ok", findRule("gemini.sentinel_sibling").Fail, func(s *Switches) { s.SentinelOnAllCallsOK = true }, false},
		{"claude_accepts_sentinel_thinking", onClaude(sentinelThinking), func(s *Switches) { s.ClaudeAcceptsSentinelThinking = true }, false},
		{"turn_continues_with", internal(textBeside), func(s *Switches) { s.TurnContinuesWith = "anything" }, true},
		{"turn_continues_with", internal(mediaBeside), func(s *Switches) { s.TurnContinuesWith = "nothing" }, false},
		{"unions_in_schema", onClaude(union), func(s *Switches) { s.UnionsInSchema = "accept" }, false},
		{"unions_in_schema", onClaude(brokenUnion), func(s *Switches) { s.UnionsInSchema = "ignore" }, false},
		{"safety_settings_ok", internal(`{` + hi + `,"safetySettings":[]}`), func(s *Switches) { s.SafetySettingsOK = false }, true},
		{"budget_minus_one_ok", internal(think(`"thinkingBudget":-1`)), func(s *Switches) { s.BudgetMinusOneOK = false }, true},
		{"request_cache_control_ok", onClaude(`{` + hi + `,"cache_control":{"type":"ephemeral"}}`), func(s *Switches) { s.RequestCacheControlOK = true }, false},
		{"budget_below_max", onModel("gemini-2.5-flash", `{`+hi+`,"generationConfig":{"maxOutputTokens":16384,"thinkingConfig":{"thinkingBudget":20000}}}`), func(s *Switches) { s.BudgetBelowMax = true }, true},
		{"response_names", findRule("gemini.response_name").Fail, func(s *Switches) { s.ResponseNames = true }, true},
		{"sampling_ranges", internal(sample(`"temperature":3`)), func(s *Switches) { s.SamplingRanges = true }, true},
		{"sampling_ranges", internal(sample(`"stopSequences":["a","b","c","d","e","f"]`)), func(s *Switches) { s.SamplingRanges = true }, true},
	}
	covered := map[string]bool{}
	for _, test := range tests {
		covered[test.name] = true
		if _, refusal := judge(test.example.with(nil).Input()); (refusal == nil) != test.pass {
			t.Errorf("%s: by default: %+v", test.name, refusal)
		}
		if _, refusal := judge(test.example.with(test.flip).Input()); (refusal == nil) == test.pass {
			t.Errorf("%s: flipped: %+v", test.name, refusal)
		}
	}
	elsewhere := []string{"usage_candidates_include_thoughts", "google_user_project_header", "project_missing_quota_full", "min_version_error"}
	for f := range reflect.TypeFor[Switches]().Fields() {
		if name := f.Tag.Get("json"); !covered[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("switch %s changes no example", name)
		}
	}
	// "accept" looks inside unions, "ignore" does not.
	if _, refusal := judge(onClaude(brokenUnion).with(func(s *Switches) { s.UnionsInSchema = "accept" }).Input()); refusal == nil {
		t.Error("unions_in_schema accept: the inside of a union was not looked at")
	}
}

// Every switch is described, and can be set to its own value.
func TestEverySwitchIsExplained(t *testing.T) {
	for _, s := range SwitchList() {
		if s.Name == "" || s.About == "" || len(s.Values) < 2 || !slices.Contains(s.Values, s.Default) {
			t.Errorf("%+v", s)
		}
	}
}

func TestSamplingRanges(t *testing.T) {
	for config, ok := range map[string]bool{
		`"temperature":0,"topP":0,"topK":1`: true, `"temperature":2,"topP":1,"topK":64`: true, `"topK":"1"`: true,
		`"temperature":-0.01`: false, `"temperature":"NaN"`: false, `"topP":1.01`: false, `"topK":0.5`: false, `"topK":-1`: false,
	} {
		if _, refusal := judge(beta(sample(config)).Input()); (refusal == nil) != ok || refusal != nil && refusal.Code != "INVALID_ARGUMENT" {
			t.Errorf("%s: %+v", config, refusal)
		}
		if _, refusal := judge(internal(sample(config)).Input()); refusal != nil {
			t.Errorf("%s on the private gateway: %+v", config, refusal)
		}
		counted := beta(`{"generateContentRequest":` + sample(config)[:len(sample(config))-1] + `,"model":"models/gemini-3-flash-preview"}}`)
		counted.Method = Count
		if _, refusal := judge(counted.Input()); refusal != nil {
			t.Errorf("%s is only counted: %+v", config, refusal)
		}
	}
}

func findRule(name string) Rule {
	table := Table()
	return table[slices.IndexFunc(table, func(r Rule) bool { return r.Name == name })]
}

func TestViolationsAreJoinedAndRepeatedInDetails(t *testing.T) {
	_, refusal := judge(internal(`{` + hi + `,"stream":true,"tools":[{"parameters":{}}]}`).Input())
	want := `Invalid JSON payload received. Unknown name "stream" at 'request': Cannot find field.` + "\n" +
		`Invalid JSON payload received. Unknown name "parameters" at 'request.tools[0]': Cannot find field.`
	if refusal == nil || refusal.Message != want {
		t.Fatalf("got %+v", refusal)
	}
	details, err := json.Marshal(refusal.Details)
	if err != nil {
		t.Fatal(err)
	}
	wantDetails := `[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[` +
		`{"description":"Invalid JSON payload received. Unknown name \"stream\" at 'request': Cannot find field.","field":"request"},` +
		`{"description":"Invalid JSON payload received. Unknown name \"parameters\" at 'request.tools[0]': Cannot find field.","field":"request.tools[0]"}]}]`
	if string(details) != wantDetails {
		t.Errorf("details\n got %s\nwant %s", details, wantDetails)
	}
}
