package rules

import "fmt"

// sizeRules hold the conversation against the model's window.
func sizeRules() []Rule {
	long := `{` + turnsJSON(`user [{"text":"0123456789012345678901234567890123456789"}]`) + `}`
	return []Rule{
		{Name: "context.too_long", Section: "13.2", Step: 14, check: checkSize,
			Pass: Example{Model: "claude-sonnet-4-6", Context: 10, Request: long},
			Fail: Example{Model: "claude-sonnet-4-6", Context: 9, Request: long},
			Text: "Prompt is too long: 10 tokens > 9 maximum"},
	}
}

func checkSize(r *request) *Refusal {
	limit := r.in.Model.Context
	if limit == 0 || !r.generating() {
		return nil
	}
	tokens := int64(r.parsed.TextBytes / 4)
	if r.in.EstimateTokens != nil {
		tokens = r.in.EstimateTokens(r.parsed.TextBytes)
	}
	switch {
	case tokens <= limit:
		return nil
	case r.in.official():
		return refuse(fmt.Sprintf("The input token count (%d) exceeds the maximum number of tokens allowed (%d).", tokens, limit))
	}
	return refuse(fmt.Sprintf("Prompt is too long: %d tokens > %d maximum", tokens, limit))
}
