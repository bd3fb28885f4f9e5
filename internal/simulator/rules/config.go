package rules

import (
	"fmt"
	"slices"
	"strings"
)

// think spells a request with a thinking config, for examples.
func think(config string) string {
	return `{` + hi + `,"generationConfig":{"thinkingConfig":{` + config + `}}}`
}

// configRules check the generation config: limits of the model, thinking, structured output.
func configRules() []Rule {
	limited := func(limit, budget string) string {
		return `{` + hi + `,"generationConfig":{"maxOutputTokens":` + limit + `,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":` + budget + `}}}`
	}
	structured := `,"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"}}`
	function := `,"tools":[{"functionDeclarations":[{"name":"f"}]}]`
	return []Rule{
		{Name: "config.max_output", Section: "3.7", Step: 12, check: checkMaxOutput,
			Pass: onClaude(`{` + hi + `,"generationConfig":{"maxOutputTokens":64000}}`),
			Fail: onClaude(`{` + hi + `,"generationConfig":{"maxOutputTokens":128000}}`),
			Text: "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-6"},
		{Name: "config.level_and_budget", Section: "3.6", Step: 12, check: checkLevelAndBudget,
			Pass: internal(think(`"thinkingLevel":"high"`)),
			Fail: internal(think(`"thinkingLevel":"high","thinkingBudget":1024`)),
			Text: "You can only set only one of thinking budget and thinking level."},
		{Name: "config.level_unknown", Section: "3.6", Step: 12, check: checkLevelKnown,
			Pass: internal(think(`"thinkingLevel":"low"`)),
			Fail: internal(think(`"thinkingLevel":"low"`)).with(func(s *Switches) { s.AcceptThinkingLevel = false }),
			Text: "Thinking level is not supported for this model."},
		{Name: "config.level_unsupported", Section: "3.1", Step: 12, check: checkLevel,
			Pass: internal(think(`"thinkingLevel":"minimal"`)),
			Fail: onModel("gemini-pro-agent", think(`"thinkingLevel":"minimal"`)),
			Text: "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level."},
		{Name: "config.budget_zero", Section: "3.1", Step: 12, check: checkBudgetZero,
			Pass: onModel("gemini-3.1-flash-lite", think(`"thinkingBudget":0`)),
			Fail: internal(think(`"thinkingBudget":0`)),
			Text: "Budget 0 is invalid. This model only works in thinking mode."},
		{Name: "config.budget_dynamic", Section: "3.6", Step: 12, check: checkBudgetDynamic,
			Pass: internal(think(`"thinkingBudget":-1`)),
			Fail: internal(think(`"thinkingBudget":-1`)).with(func(s *Switches) { s.BudgetMinusOneOK = false }),
			Text: "Unable to submit request because thinking_budget is out of range; supported values are integers from 128 to 32768."},
		{Name: "config.budget_range", Section: "3.6", Step: 12, check: checkBudgetRange,
			Pass: Example{Surface: V1Beta, Model: "gemini-2.5-flash", Request: think(`"thinkingBudget":24576`)},
			Fail: Example{Surface: V1Beta, Model: "gemini-2.5-flash", Request: think(`"thinkingBudget":24577`)},
			Text: "Unable to submit request because thinking_budget is out of range; supported values are integers from 1 to 24576."},
		{Name: "config.budget_claude_minimum", Section: "3.6", Step: 12, check: checkBudgetMinimum,
			Pass: onClaude(limited("2000", "1024")),
			Fail: onClaude(limited("2000", "1023")),
			Text: "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
		{Name: "config.budget_below_max", Section: "3.7", Step: 12, check: checkBudgetBelowMax,
			Pass: onClaude(limited("16001", "16000")),
			Fail: onClaude(limited("16000", "16000")),
			Text: "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"},
		{Name: "config.candidate_count", Section: "3.7", Step: 12, check: checkCandidates,
			Pass: beta(`{` + hi + `,"generationConfig":{"candidateCount":2}}`),
			Fail: beta(`{` + hi + `,"generationConfig":{"candidateCount":9}}`),
			Text: "* GenerateContentRequest.generation_config.candidate_count: candidate_count must be in the range [1, 8]"},
		{Name: "config.schema_needs_json", Section: "5.5", Step: 12, check: checkSchemaNeedsJSON,
			Pass: beta(`{` + hi + structured + `}`),
			Fail: beta(`{` + hi + `,"generationConfig":{"responseSchema":{"type":"OBJECT"}}}`),
			Text: "* GenerateContentRequest.generation_config.response_schema: only allowed when response_mime_type is application/json"},
		{Name: "config.json_with_functions", Section: "5.5", Step: 12, check: checkJSONWithFunctions,
			Pass: internal(`{` + hi + structured + function + `}`),
			Fail: onModel("gemini-2.5-flash", `{`+hi+structured+function+`}`),
			Text: "Function calling with a response mime type: 'application/json' is unsupported"},
		{Name: "config.modalities", Section: "5.4", Step: 12, check: checkModalities,
			Pass: onModel("gemini-3.1-flash-image", `{`+hi+`,"generationConfig":{"responseModalities":["IMAGE","TEXT"]}}`),
			Fail: internal(`{` + hi + `,"generationConfig":{"responseModalities":["IMAGE","TEXT"]}}`),
			Text: "The requested combination of response modalities (IMAGE, TEXT) is not supported by the model. models/gemini-3-flash accepts the following combination of response modalities:\n* TEXT\n"},
	}
}

// generating reports whether the request is to be answered by the model, so that its config
// matters.
func (r *request) generating() bool { return r.in.Method == Generate }

func (r *request) budget() (int64, bool) {
	b := r.parsed.Config.Thinking.Budget
	if b == nil || !r.generating() {
		return 0, false
	}
	return *b, true
}

func checkMaxOutput(r *request) *Refusal {
	given, limit := r.root.get("generationConfig").int("maxOutputTokens"), r.in.Model.MaxOutput
	if given == nil || !r.generating() || *given >= 1 && (limit == 0 || *given <= limit) {
		return nil
	}
	switch {
	case r.in.Model.Family != Claude:
		return refuse(fmt.Sprintf("Unable to submit request because it has a maxOutputTokens value of %d but the supported range is from 1 (inclusive) to %d (exclusive). Update the value and try again.", *given, limit+1))
	case *given < 1:
		return refuse("max_tokens: Input should be greater than or equal to 1")
	}
	return refuse(fmt.Sprintf("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", *given, limit, r.in.Model.ID))
}

func checkLevelAndBudget(r *request) *Refusal {
	if t := r.parsed.Config.Thinking; r.generating() && t.Level != "" && t.Budget != nil {
		return refuse("You can only set only one of thinking budget and thinking level.")
	}
	return nil
}

// checkLevelKnown: levels are for models that have some, and on the private gateway they are
// disputed.
func checkLevelKnown(r *request) *Refusal {
	if !r.generating() || r.parsed.Config.Thinking.Level == "" || r.in.Model.Family == GPTOSS {
		return nil
	}
	refusedThere := r.in.Surface == V1Internal && !r.in.Switches.AcceptThinkingLevel
	if refusedThere || len(r.in.Model.Levels) == 0 {
		return refuse("Thinking level is not supported for this model.")
	}
	return nil
}

func checkLevel(r *request) *Refusal {
	level := r.parsed.Config.Thinking.Level
	if !r.generating() || level == "" || r.in.Model.Family == GPTOSS || slices.Contains(r.in.Model.Levels, level) {
		return nil
	}
	return refuse("Thinking level " + strings.ToUpper(level) + " is not supported for this model. Please retry with other thinking level.")
}

func checkBudgetZero(r *request) *Refusal {
	if b, ok := r.budget(); ok && b == 0 && !r.in.Model.ZeroBudget && r.in.Model.MaxBudget > 0 {
		return refuse("Budget 0 is invalid. This model only works in thinking mode.")
	}
	return nil
}

func budgetOutOfRange(m Model) *Refusal {
	return refuse(fmt.Sprintf("Unable to submit request because thinking_budget is out of range; supported values are integers from %d to %d.", m.MinBudget, m.MaxBudget))
}

func checkBudgetDynamic(r *request) *Refusal {
	b, ok := r.budget()
	if !ok || b != -1 || r.in.Model.MaxBudget == 0 {
		return nil
	}
	if r.in.Model.DynamicBudget && (r.in.Switches.BudgetMinusOneOK || r.in.official()) {
		return nil
	}
	return budgetOutOfRange(r.in.Model)
}

// checkBudgetRange leaves Claude to the two rules after it: its backend words them differently.
func checkBudgetRange(r *request) *Refusal {
	m := r.in.Model
	b, ok := r.budget()
	if !ok || b == 0 || b == -1 || m.MaxBudget == 0 || m.Family == Claude || b >= m.MinBudget && b <= m.MaxBudget {
		return nil
	}
	return budgetOutOfRange(m)
}

func checkBudgetMinimum(r *request) *Refusal {
	b, ok := r.budget()
	if !ok || r.in.Model.Family != Claude || b == 0 || b == -1 || b >= r.in.Model.MinBudget {
		return nil
	}
	return refuse(fmt.Sprintf("thinking.enabled.budget_tokens: Input should be greater than or equal to %d", r.in.Model.MinBudget))
}

// checkBudgetBelowMax applies to Claude, and on the private gateway to other models if the switch
// is on. The official API accepts a budget above the limit: clients send it.
func checkBudgetBelowMax(r *request) *Refusal {
	b, ok := r.budget()
	limit := r.parsed.Config.MaxTokens
	claude := r.in.Model.Family == Claude
	if !ok || r.in.Model.MaxBudget == 0 || !claude && (r.in.official() || !r.in.Switches.BudgetBelowMax) {
		return nil
	}
	if limit == 0 {
		limit = r.in.Model.MaxOutput
	}
	if limit == 0 || b < limit {
		return nil
	}
	if claude {
		return refuse("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
	}
	return refuse(fmt.Sprintf("Unable to submit request because max_output_tokens (%d) must be greater than thinking_budget (%d).", limit, b))
}

func checkCandidates(r *request) *Refusal {
	given := r.root.get("generationConfig").int("candidateCount")
	if given == nil || !r.generating() || *given >= 1 && *given <= 8 {
		return nil
	}
	var errs fieldErrors
	errs.add("candidate_count must be in the range [1, 8]", "generation_config.candidate_count")
	return errs.refusal()
}

func checkSchemaNeedsJSON(r *request) *Refusal {
	c := r.parsed.Config
	var errs fieldErrors
	if r.generating() && c.ResponseMIME != "application/json" && c.ResponseMIME != "text/x.enum" {
		if c.ResponseSchema != nil {
			errs.add("only allowed when response_mime_type is application/json", "generation_config.response_schema")
		}
		if c.ResponseJSON != nil {
			errs.add("only allowed when response_mime_type is application/json", "generation_config.response_json_schema")
		}
	}
	return errs.refusal()
}

func checkJSONWithFunctions(r *request) *Refusal {
	if r.generating() && r.in.Model.Family == Gemini2 && r.parsed.Config.ResponseMIME == "application/json" && len(r.parsed.Functions) > 0 {
		return refuse("Function calling with a response mime type: 'application/json' is unsupported")
	}
	return nil
}

func checkModalities(r *request) *Refusal {
	wanted := r.parsed.Config.Modalities
	other := slices.ContainsFunc(wanted, func(m string) bool { return m == "AUDIO" || m == "IMAGE" && r.in.Model.Family != Image })
	if !r.generating() || !other {
		return nil
	}
	accepted := "* TEXT\n"
	if r.in.Model.Family == Image {
		accepted = "* IMAGE\n* TEXT, IMAGE\n"
	}
	return refuse(fmt.Sprintf("The requested combination of response modalities (%s) is not supported by the model. models/%s accepts the following combination of response modalities:\n%s",
		strings.Join(wanted, ", "), r.in.Model.ID, accepted))
}
