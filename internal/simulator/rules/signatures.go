package rules

import "fmt"

// sentinels are accepted in place of the signature of a Gemini function call.
var sentinels = map[string]bool{
	"skip_thought_signature_validator":     true,
	"context_engineering_is_the_way_to_go": true,
}

// signatureRules check the signatures that Gemini models put on their parts and require back.
func signatureRules() []Rule {
	const ask = `user [{"text":"a"}]`
	call := func(name, signature string) string {
		text := `{"functionCall":{"name":"` + name + `"}`
		if signature != "" {
			text += `,"thoughtSignature":"` + signature + `"`
		}
		return text + `}`
	}
	loop := func(call string) Example {
		return internal(`{` + turnsJSON(ask, `model [`+call+`]`, `user [{"functionResponse":{"name":"f","response":{}}}]`) + `}`)
	}
	pair := internal(`{` + turnsJSON(ask, `model [`+call("f", GeminiSignature)+`,`+call("g", "skip_thought_signature_validator")+`]`) + `}`)
	return []Rule{
		{Name: "gemini.signature_missing", Section: "5.1", Step: 13, check: notClaude(checkGeminiSigned),
			Pass: loop(call("f", "skip_thought_signature_validator")),
			Fail: loop(call("f", "")),
			Text: "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:f` , position 2. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."},
		{Name: "gemini.sentinel_sibling", Section: "5.1", Step: 13, check: notClaude(checkSentinels),
			Pass: pair.with(func(s *Switches) { s.SentinelOnAllCallsOK = true }),
			Fail: pair,
			Text: "Only the first function call of a turn may carry a thought_signature. Additional data, function call `default_api:g` , position 2."},
		{Name: "gemini.signature_corrupted", Section: "5.1", Step: 13, check: notClaude(checkGeminiIntegrity),
			Pass: loop(call("f", GeminiSignature)),
			Fail: loop(call("f", "AAAA")),
			Text: "Corrupted thought signature."},
		{Name: "gemini.signature_foreign", Section: "5.1", Step: 13, check: notClaude(checkGeminiFamily),
			Pass: loop(call("f", GeminiSignature)),
			Fail: loop(call("f", ClaudeSignature)),
			Text: "Thought signature is not valid for this model."},
	}
}

// checkGeminiSigned looks at the current turn only: calls of earlier turns may be unsigned.
func checkGeminiSigned(r *request) *Refusal {
	if r.in.Model.Family != Gemini {
		return nil
	}
	contents := r.parsed.Contents
	for i := r.currentTurn(contents); i < len(contents); i++ {
		at := calls(contents[i])
		if len(at) == 0 || contents[i].Role != "model" {
			continue
		}
		if first := contents[i].Parts[at[0]]; first.Signature == "" {
			return refuse(fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
				first.Call.Name, i+1))
		}
	}
	return nil
}

func checkSentinels(r *request) *Refusal {
	if r.in.Switches.SentinelOnAllCallsOK || r.in.Model.Family == GPTOSS {
		return nil
	}
	for i, c := range r.parsed.Contents {
		for n, j := range calls(c) {
			if n > 0 && sentinels[c.Parts[j].Signature] {
				return refuse(fmt.Sprintf("Only the first function call of a turn may carry a thought_signature. Additional data, function call `default_api:%s` , position %d.", c.Parts[j].Call.Name, i+1))
			}
		}
	}
	return nil
}

// issued returns the family that a signature was issued for, and whether it was issued. Without
// Input.Verify, none was.
func (r *request) issued(signature string) (Family, bool) {
	if r.in.Verify == nil {
		return "", false
	}
	return r.in.Verify(signature)
}

func checkGeminiIntegrity(r *request) *Refusal {
	return r.eachGeminiSignature(func(_ Family, issued bool) *Refusal {
		if issued {
			return nil
		}
		return refuse("Corrupted thought signature.")
	})
}

func checkGeminiFamily(r *request) *Refusal {
	return r.eachGeminiSignature(func(family Family, issued bool) *Refusal {
		if !issued || family == Gemini || family == Gemini2 || family == Image {
			return nil
		}
		return refuse("Thought signature is not valid for this model.")
	})
}

// eachGeminiSignature visits all signed parts, at any position: integrity does not depend on the
// position. Sentinels count as signatures everywhere but on a function call.
func (r *request) eachGeminiSignature(visit func(family Family, issued bool) *Refusal) *Refusal {
	if r.in.Model.Family == GPTOSS {
		return nil
	}
	return r.eachPart(func(_ place, p Part) *Refusal {
		if p.Signature == "" || p.Call != nil && sentinels[p.Signature] {
			return nil
		}
		return visit(r.issued(p.Signature))
	})
}

func checkSignaturePresent(r *request) *Refusal {
	return r.eachPart(func(at place, p Part) *Refusal {
		if !p.Thought || p.Signature != "" {
			return nil
		}
		return refuse(fmt.Sprintf("%v.thinking.signature: Field required", at))
	})
}

// checkSignatureValid: Claude ignores a sentinel on anything but thinking, where the switch
// decides.
func checkSignatureValid(r *request) *Refusal {
	return r.eachPart(func(at place, p Part) *Refusal {
		if p.Signature == "" || sentinels[p.Signature] && (!p.Thought || r.in.Switches.ClaudeAcceptsSentinelThinking) {
			return nil
		}
		if family, ok := r.issued(p.Signature); ok && family == Claude {
			return nil
		}
		return refuse(fmt.Sprintf("%v: Invalid `signature` in `thinking` block", at))
	})
}
