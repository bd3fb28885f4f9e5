package rules

import (
	"fmt"
	"slices"
)

const (
	countText      = "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
	unexpectedText = "Please ensure that function response turn comes immediately after a function call turn."
)

// pairingRules check the order of calls and results for all models but Claude, which has rules of
// its own.
func pairingRules() []Rule {
	ask := `user [{"text":"a"}]`
	call := func(id, name string) string {
		return `{"functionCall":{` + id + `"name":"` + name + `"},"thoughtSignature":"` + GeminiSignature + `"}`
	}
	second := `{"functionCall":{"name":"g"}}`
	result := func(id, name string) string {
		return `{"functionResponse":{` + id + `"name":"` + name + `","response":{}}}`
	}
	f, rf, rg := call("", "f"), result("", "f"), result("", "g")
	good := internal(`{` + turnsJSON(ask, `model [`+f+`,`+second+`]`, `user [`+rf+`,`+rg+`]`) + `}`)
	return []Rule{
		{Name: "gemini.first_user", Section: "5.2", Step: 13, check: notClaude(checkFirstUser),
			Pass: internal(`{` + turnsJSON(`user [{"text":""}]`, `model [{"text":"b"}]`, ask) + `}`),
			Fail: internal(`{` + turnsJSON(`model [{"text":"b"}]`, ask) + `}`),
			Text: "Please ensure that multiturn requests start with a user turn."},
		{Name: "gemini.response_count", Section: "5.2", Step: 13, check: notClaude(checkResponseCount),
			Pass: good,
			Fail: internal(`{` + turnsJSON(ask, `model [`+f+`,`+second+`]`, `user [`+rf+`]`, `user [`+rg+`]`) + `}`),
			Text: countText},
		{Name: "gemini.response_unexpected", Section: "5.2", Step: 13, check: notClaude(checkResponseUnexpected),
			Pass: good,
			Fail: internal(`{` + turnsJSON(ask, `model [{"text":"b"}]`, `user [`+rf+`]`) + `}`),
			Text: unexpectedText},
		{Name: "gemini.response_id", Section: "5.2", Step: 13, check: notClaude(checkResponseIDs),
			Pass: internal(`{` + turnsJSON(ask, `model [`+call(`"id":"c1",`, "f")+`]`, `user [`+result(`"id":"c1",`, "f")+`]`) + `}`),
			Fail: internal(`{` + turnsJSON(ask, `model [`+call(`"id":"c1",`, "f")+`]`, `user [`+result(`"id":"c2",`, "f")+`]`) + `}`),
			Text: "Please ensure that every function call id has a function response with the same id. Missing: c1"},
		{Name: "gemini.response_name", Section: "4.3", Step: 13, check: notClaude(checkResponseNames),
			Pass: good,
			Fail: internal(`{` + turnsJSON(ask, `model [`+f+`]`, `user [`+rg+`]`) + `}`).with(func(s *Switches) { s.ResponseNames = true }),
			Text: "Please ensure that every function call has a function response with the same name. Missing: f"},
	}
}

// notClaude limits a rule to generation by the other families.
func notClaude(check func(*request) *Refusal) func(*request) *Refusal {
	return func(r *request) *Refusal {
		if !r.generating() || r.in.Model.Family == Claude {
			return nil
		}
		return check(r)
	}
}

func checkFirstUser(r *request) *Refusal {
	switch first := r.parsed.Contents[0]; {
	case first.Role == "user":
		return nil
	case len(calls(first)) > 0:
		return refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	}
	return refuse("Please ensure that multiturn requests start with a user turn.")
}

// An exchange is a model's calls and the results in the content that follows. Either may be empty:
// calls that were not answered, results out of nowhere.
type exchange struct {
	calls   []*Call
	results []*Response
	ended   bool // nothing follows the calls
}

// exchanges pairs every stretch of model contents with the contents after it. A content of results
// alone is an answer with any role.
func exchanges(contents []Content) []exchange {
	var list []exchange
	var pending []*Call
	flush := func(results []*Response) {
		if len(pending)+len(results) > 0 {
			list = append(list, exchange{calls: pending, results: results})
		}
		pending = nil
	}
	for _, c := range contents {
		var results []*Response
		for _, j := range responses(c) {
			results = append(results, c.Parts[j].Response)
		}
		answers := len(results) > 0
		speaks := c.Role == "model" && !resultsOnly(c)
		if answers || !speaks {
			// if calls and results share a content, the results answer the calls before it
			flush(results)
		}
		for _, j := range calls(c) {
			pending = append(pending, c.Parts[j].Call)
		}
	}
	if len(pending) > 0 {
		list = append(list, exchange{calls: pending, ended: true})
	}
	return list
}

func checkResponseUnexpected(r *request) *Refusal {
	if slices.ContainsFunc(exchanges(r.parsed.Contents), func(e exchange) bool { return len(e.calls) == 0 }) {
		return refuse(unexpectedText)
	}
	return nil
}

// miscounted: calls that are still open at the very end are legal.
func miscounted(e exchange) bool {
	return len(e.calls) > 0 && !e.ended && len(e.calls) != len(e.results)
}

func checkResponseCount(r *request) *Refusal {
	if slices.ContainsFunc(exchanges(r.parsed.Contents), miscounted) {
		return refuse(countText)
	}
	return nil
}

func checkResponseIDs(r *request) *Refusal {
	return missing(r, "id", func(c *Call) string { return c.ID }, func(s *Response) string { return s.ID })
}

func checkResponseNames(r *request) *Refusal {
	if !r.in.Switches.ResponseNames {
		return nil
	}
	return missing(r, "name", func(c *Call) string { return c.Name }, func(s *Response) string { return s.Name })
}

// missing refuses when a call's key, where it has one, is not repeated by a result of the same
// exchange.
func missing(r *request, what string, ofCall func(*Call) string, ofResult func(*Response) string) *Refusal {
	for _, e := range exchanges(r.parsed.Contents) {
		if len(e.calls) != len(e.results) {
			continue // other rules count
		}
		open := map[string]int{}
		for _, s := range e.results {
			open[ofResult(s)]++
		}
		for _, c := range e.calls {
			key := ofCall(c)
			if open[key]--; key != "" && open[key] < 0 {
				object := "every function call has a function response with the same name"
				if what == "id" {
					object = "every function call id has a function response with the same id"
				}
				return refuse(fmt.Sprintf("Please ensure that %s. Missing: %s", object, key))
			}
		}
	}
	return nil
}
