package adapt

import (
	"strings"
	"testing"

	"perigee/internal/adapt/models"
	wire "perigee/internal/dialect/gemini"
)

const (
	claude  = "claude-sonnet-4-6"
	flash   = "gemini-3-flash"
	image   = "gemini-3.1-flash-image"
	gptoss  = "gpt-oss-120b-medium"
	goingOn = `user {"text":"Continue."}`
)

// with adds members to a body.
func with(body, members string) string { return strings.TrimSuffix(body, "}") + "," + members + "}" }

// declaring is the declaration of functions with one parameter each.
func declaring(names ...string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = `{"name":"` + name + `","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}`
	}
	return `"tools":[{"functionDeclarations":[` + strings.Join(list, ",") + `]}]`
}

// thinkingOf is the config of a model that thinks.
func thinkingOf(budget string) string {
	return `"generationConfig":{"maxOutputTokens":32000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":` + budget + `}}`
}

func signedThought(signature string) string {
	return `{"thought":true,"text":"hm","thoughtSignature":"` + signature + `"}`
}

const (
	validated   = `"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}}`
	placeholder = `{"type":"object","properties":{"_placeholder":{"type":"boolean","description":"Not used. Always pass true."}},"required":["_placeholder"]}`
)

// Known traps of the API, by the numbers of the interface notes. Bodies are those of the provider's
// API; an empty want is the same as in.
func TestTraps(t *testing.T) {
	hello := contents(hi)
	hint := `{"text":"` + interleaved + `"}`
	loop := func(call string) string { return contents(hi, `model `+call, `user `+result("1", "f")) }
	signedCall := call("1", "f", signed(geminiSignature))
	for _, c := range []struct {
		name, model string
		in, want    string
		notes       string
	}{
		{"trap 22: the role system belongs to the system instruction", claude, contents(`system {"text":"be brief"}`, hi),
			`{"systemInstruction":{"role":"user","parts":[{"text":"be brief"}]},` + hello[1:], "mapped turn of role system to the system instruction"},
		{"trap 22: other roles are the user's or the model's", flash, contents(hi, `assistant {"text":"a"}`, `function {"text":"b"}`), contents(hi, `model {"text":"a"}`, `user {"text":"b"}`), ""},
		{"trap 22: the gateway refuses members that it does not know", flash, with(hello, `"messages":[],"metadata":{},"labels":{"a":"b"}`), with(hello, `"labels":{"a":"b"}`), "dropped messages; dropped metadata"},
		{"trap 22: a member in two spellings is one", flash, with(hello, `"cachedContent":"a","cached_content":"b"`), with(hello, `"cachedContent":"a"`), ""},
		{"trap 23: Claude takes no empty text", claude, contents(`user {"text":""},{"text":" \n"},{"text":"a"}`, `model {"text":""}`, `user {"text":"b"}`), contents(`user {"text":"a"}`, `user {"text":"b"}`), ""},
		{"trap 23: a part has data", flash, contents(`user {"text":"a"},{"thought":true}`), contents(`user {"text":"a"}`), ""},
		{"trap 23: Gemini wants the user first", flash, contents(`model {"text":"a"}`, hi), contents(`user {"text":""}`, `model {"text":"a"}`, hi), "repaired conversation that began with the model"},
		{"trap 23: so does Claude, and something said", claude, contents(`model {"text":"a"}`, hi), contents(goingOn, `model {"text":"a"}`, hi), "repaired conversation that began with the model"},
		{"trap 24: cache_control anywhere", claude, `{"contents":[{"role":"user","parts":[{"text":"a","cache_control":{"type":"ephemeral"}}],"cacheControl":{}},` +
			`{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{},"cache_control":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{},"cache_control":{}}}]}],"cacheControl":{}}`,
			contents(`user {"text":"a"}`, `model `+call("1", "f"), `user {"functionResponse":{"id":"1","name":"f","response":{}}}`),
			"dropped cacheControl; dropped contents[].cacheControl; dropped parts[].cacheControl; dropped functionCall.cacheControl; dropped functionResponse.cacheControl"},
		{"trap 25: Claude does not go on with its own words", claude, contents(hi, `model {"text":"a"}`), contents(hi, `model {"text":"a"}`, goingOn), "repaired conversation that ended with the model"},
		{"trap 26: nothing but a system message", claude, `{"systemInstruction":{"parts":[{"text":"do"}]},"contents":[]}`, contents(`user {"text":"do"}`), "mapped system instruction to a user turn"},
		{"trap 27: a schema beside the functions", flash, with(hello, `"tools":[{"parameters":{"type":"object"}}]`), hello, "dropped tool parameters"},
		{"trap 28: search beside functions is a function", flash, with(hello, `"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"includeServerSideToolInvocations":true}`),
			with(hello, `"tools":[{"functionDeclarations":[{"name":"f"},{"name":"google_search","description":"Searches the web with Google and returns what was found, with its sources. Use it for whatever is recent or has to be looked up.","parameters":{"type":"object","properties":{"query":{"type":"string","description":"What to search for, in plain words"}},"required":["query"]}}]}]`),
			"mapped tool googleSearch beside functions to a function"},
		{"trap 28: search alone is search", flash, with(hello, `"tools":[{"googleSearch":{}},{"urlContext":{}}]`), "", ""},
		{"trap 29: values that are not there", flash, with(hello, `"safetySettings":"[undefined]","labels":{"a":"[undefined]","b":"c","d":null},"cachedContent":null,"generationConfig":{"responseMimeType":"[undefined]","stopSequences":["[undefined]","x"],"thinkingConfig":{"thinkingLevel":"[undefined]"}},"toolConfig":{"functionCallingConfig":{"mode":"[undefined]"}}`),
			with(hello, `"generationConfig":{"stopSequences":["x"]},"labels":{"b":"c"}`), ""},
		{"trap 30: what only one client knows", flash, with(hello, `"tools":[{"functionDeclarations":[{"name":"f","strict":true,"encrypted":false}]}]`), with(hello, `"tools":[{"functionDeclarations":[{"name":"f"}]}]`), "dropped tools[].strict; dropped tools[].encrypted"},
		{"trap 30: in a search, too", flash, with(hello, `"tools":[{"googleSearch":{"external_web_access":true,"excludeDomains":["a.org"]}}]`), with(hello, `"tools":[{"googleSearch":{"excludeDomains":["a.org"]}}]`), "dropped googleSearch.external_web_access"},
		{"trap 32: more tokens than there can be", claude, with(hello, `"generationConfig":{"maxOutputTokens":128000}`), with(hello, `"generationConfig":{"maxOutputTokens":64000}`), "mapped max output tokens 128000 to 64000"},
		{"trap 32: thinking leaves room for the answer", claude, with(hello, `"generationConfig":{"maxOutputTokens":16000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":16000}}`), with(hello, `"generationConfig":{"maxOutputTokens":16000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":8000}}`), "mapped thinking budget 16000 to 8000"},
		{"trap 32: or does not happen", claude, with(hello, `"generationConfig":{"maxOutputTokens":1000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}`), with(hello, `"generationConfig":{"maxOutputTokens":1000,"thinkingConfig":{"thinkingBudget":0}}`), "mapped thinking budget 1024 to 0 (thinking is off, as it takes at least 1024 tokens of an answer that may have 1000)"},
		{"trap 32: for Gemini, too", "gemini-3.5-flash-low", with(hello, `"generationConfig":{"thinkingConfig":{"thinkingBudget":65535}}`), with(hello, `"generationConfig":{"thinkingConfig":{"thinkingBudget":32767}}`), "mapped thinking budget 65535 to 32767"},
		{"trap 32: Gemini cannot think too little", flash, with(hello, `"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":500}}`), with(hello, `"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingLevel":"minimal"}}`), "mapped thinking budget 500 to 128"},
		{"trap 33: a level or a budget", flash, with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"low","thinkingBudget":9000}}`), with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}`), ""},
		{"trap 33: Pro has no medium", "gemini-3-pro-preview", with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"MEDIUM"}}`), with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"high"}}`), "mapped thinking level medium to high"},
		{"trap 33: no model has sideways", flash, with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"sideways"}}`), hello, "dropped thinking level sideways"},
		{"trap 33: a budget for lite", "gemini-2.5-flash-lite", with(hello, `"generationConfig":{"thinkingConfig":{"thinkingBudget":100}}`), with(hello, `"generationConfig":{"thinkingConfig":{"thinkingBudget":512}}`), "mapped thinking budget 100 to 512"},
		{"trap 33: up to the model", flash, with(hello, `"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":-1}}`), with(hello, `"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`), ""},
		{"trap 33: GPT-OSS does not think on demand", gptoss, with(hello, thinkingOf("2048")), with(hello, `"generationConfig":{"maxOutputTokens":32000}`), "dropped thinking"},
		{"trap 34: Claude shows thoughts only with a budget", claude, with(hello, `"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`), with(hello, `"generationConfig":{"maxOutputTokens":64000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":16384}}`), ""},
		{"trap 34: and a budget shows them", claude, with(hello, `"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}`), with(hello, `"generationConfig":{"maxOutputTokens":64000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":1024}}`), ""},
		{"trap 35: names that differ by case", flash, with(hello, declaring("Read", "read", "READ", "read")), with(hello, declaring("Read", "read_3316348dbadf", "READ_3f5637410846")),
			"renamed tool read; renamed tool READ; dropped second declaration of tool read"},
		{"trap 35: names that are the same when they are legal", claude, with(hello, declaring("a.b", "a:b", "a_b")), with(with(hello, declaring("a_b_2e7336dc8eba", "a_b_6783a31eabf6", "a_b")), validated), "renamed tool a.b; renamed tool a:b"},
		{"trap 35: or would be but for their case", flash, with(hello, declaring("a b", "A_B")), with(hello, declaring("a_b_c8687a08aa5d", "A_B")), "renamed tool a b"},
		{"trap 37: a result is named like its call", flash, contents(hi, `model `+signedCall, `user `+result("1", "1")), loop(signedCall), "renamed tool 1"},
		{"trap 38: pictures stand behind the results", claude, contents(hi, `model `+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,{"inlineData":{"mimeType":"image/png","data":"AAAA"}},`+result("2", "f")),
			contents(hi, `model `+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")+`,{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`), ""},
		{"trap 39: a call without arguments stays a call", claude, loop(`{"functionCall":{"id":"1","name":"f"}}`), loop(call("1", "f")), ""},
		{"trap 39: arguments are an object", claude, contents(hi, `model {"functionCall":{"id":"1","name":"f","args":"{\"a\":1}"}},{"functionCall":{"id":"2","name":"f","args":7}}`, `user `+result("1", "f")+`,`+result("2", "f")),
			contents(hi, `model {"functionCall":{"id":"1","name":"f","args":{"a":1}}},{"functionCall":{"id":"2","name":"f","args":{"input":7}}}`, `user `+result("1", "f")+`,`+result("2", "f")), ""},
		{"trap 40: arguments that look like a schema stay", claude, loop(`{"functionCall":{"id":"1","name":"f","args":{"type":["string","null"],"const":1,"$ref":"#/x"}}}`), "", ""},
		{"trap 41: properties may be called anything", claude, with(hello, `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"properties":{"type":"string"},"pattern":{"type":"string"},"title":{"type":"string"},"$ref":{"type":"string"}},"required":["pattern"]}}]}],`+validated), "", ""},
		{"trap 42: a schema within itself", flash, with(hello, `"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}}]}]`),
			with(hello, `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"next":{"type":"object","description":"See: n",`+placeholder[len(`{"type":"object",`):]+`}}}]}]`), "mapped schema of tool f (cut $ref at next)"},
		{"trap 43: Claude wants at least one property", claude, with(hello, `"tools":[{"functionDeclarations":[{"name":"f"}]}]`), with(hello, `"tools":[{"functionDeclarations":[{"name":"f","parameters":`+placeholder+`}]}],`+validated), ""},
		{"trap 44: large numbers and angle brackets", claude, with(contents(`user {"text":"<a&b>"}`), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":9007199254740993,"description":"<n>"}}}}]}]`),
			with(contents(`user {"text":"<a&b>"}`), `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","description":"<n> (minimum: 9007199254740993)"}}}}]}],`+validated), ""},
		{"trap 45: a cache by its name", flash, with(hello, `"cachedContent":"cachedContents/x","sessionId":"s"`), "", ""},

		{"trap 47: thinking without a signature goes", flash, contents(hi, `model {"thought":true,"text":"hm"},{"text":"a"}`, hi), contents(hi, `model {"text":"a"}`, hi), "omitted earlier thinking"},
		{"trap 47: a signature of another channel is none", claude, with(contents(hi, `model `+signedThought("C"+claudeOnce[1:])+`,`+call("1", "f"), `user `+result("1", "f")), thinkingOf("2048")),
			with(contents(hi, `model `+call("1", "f"), `user `+result("1", "f"), `model {"text":"[The tool has answered.]"}`, goingOn), thinkingOf("2048")), "repaired round of tools whose first thoughts are lost"},
		{"trap 48: a signature is encoded twice", claude, with(loop(signedThought(claudeOnce)+`,`+call("1", "f")), thinkingOf("2048")), with(loop(signedThought(claudeTwice)+`,`+call("1", "f")), thinkingOf("2048")), ""},
		{"trap 48: and not three times", claude, with(loop(signedThought(claudeTwice)+`,`+call("1", "f")), thinkingOf("2048")), "", ""},
		{"trap 49: thoughts come first", claude, with(loop(`{"text":"a"},`+signedThought(claudeTwice)+`,`+call("1", "f")), thinkingOf("2048")), with(loop(signedThought(claudeTwice)+`,{"text":"a"},`+call("1", "f")), thinkingOf("2048")), ""},
		{"trap 49: later ones go", claude, with(loop(signedThought(claudeTwice)+`,{"text":"a"},`+signedThought(claudeTwice)+`,`+call("1", "f")), thinkingOf("2048")), with(loop(signedThought(claudeTwice)+`,{"text":"a"},`+call("1", "f")), thinkingOf("2048")), "omitted earlier thinking"},
		{"trap 50: a round of tools whose thoughts are lost is closed, and thinking stays on", claude,
			with(contents(hi, `model {"text":"a"},`+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")), thinkingOf("2048")),
			with(contents(hi, `model {"text":"a"},`+call("1", "f")+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f"), `model {"text":"[2 tools have answered.]"}`, goingOn), thinkingOf("2048")),
			"repaired round of tools whose first thoughts are lost"},
		{"trap 50: without thinking it is as it should be", claude, loop(call("1", "f")), "", ""},
		{"trap 50: thoughts go where thinking is off", claude, loop(signedThought(claudeTwice) + `,` + call("1", "f")), loop(call("1", "f")), "omitted earlier thinking"},
		{"trap 50: only the turn that goes on needs its thoughts", claude, with(contents(hi, `model `+signedThought(claudeTwice)+`,`+call("0", "f"), `user `+result("0", "f"), `model {"text":"done"}`, hi, `model `+signedThought(claudeTwice)+`,`+call("1", "f"), `user `+result("1", "f"), `model `+signedThought(claudeTwice)+`,`+call("2", "f"), `user `+result("2", "f")), thinkingOf("2048")),
			with(contents(hi, `model `+call("0", "f"), `user `+result("0", "f"), `model {"text":"done"}`, hi, `model `+signedThought(claudeTwice)+`,`+call("1", "f"), `user `+result("1", "f"), `model `+call("2", "f"), `user `+result("2", "f")), thinkingOf("2048")), "omitted earlier thinking"},
		{"trap 51: without a signature it is no thought", claude, with(contents(hi, `model {"thought":true,"text":"[debug]"},{"text":"a"}`, hi), thinkingOf("2048")), with(contents(hi, `model {"text":"a"}`, hi), thinkingOf("2048")), "omitted earlier thinking"},
		{"trap 52: only the first call has a stand-in for its signature", flash, contents(hi, `model `+call("1", "f", signed(skipped))+`,`+call("2", "f", signed(skipped)), `user `+result("1", "f")+`,`+result("2", "f")),
			contents(hi, `model `+call("1", "f", signed(skipped))+`,`+call("2", "f"), `user `+result("1", "f")+`,`+result("2", "f")), ""},
		{"trap 53: every newer Gemini wants one", "gemini-3.7-flash-high", loop(call("1", "f")), loop(call("1", "f", signed(skipped))), ""},
		{"trap 53: also those that have no number", "gemini-pro-agent", loop(call("1", "f")), loop(call("1", "f", signed(skipped))), ""},
		{"trap 53: older ones do not", "gemini-2.5-pro", loop(call("1", "f")), "", ""},
		{"trap 54: a signature by itself stays where it is", flash, contents(hi, `model {"text":"a"},{"text":"","thoughtSignature":"`+geminiSignature+`"}`, hi), "", ""},
		{"trap 54: also without a text", flash, contents(hi, `model {"text":"a"},{"thoughtSignature":"`+geminiSignature+`"}`, hi), contents(hi, `model {"text":"a"},{"text":"","thoughtSignature":"`+geminiSignature+`"}`, hi), ""},
		{"trap 54: Claude's belongs to the thought before it", claude, with(loop(`{"thought":true,"text":"h"},{"thought":true,"text":"m"},{"thought":true,"text":"","thoughtSignature":"`+claudeTwice+`"},`+call("1", "f")), thinkingOf("2048")), with(loop(signedThought(claudeTwice)+`,`+call("1", "f")), thinkingOf("2048")), ""},
		{"trap 55: from Claude to Gemini", flash, loop(signedThought(claudeTwice) + `,` + call("1", "f", signed(claudeTwice))), loop(call("1", "f", signed(skipped))), "omitted earlier thinking"},
		{"trap 55: from Gemini to Claude", claude, with(loop(`{"text":"a","thoughtSignature":"`+geminiSignature+`"},`+signedCall), thinkingOf("2048")),
			with(contents(hi, `model {"text":"a"},`+call("1", "f"), `user `+result("1", "f"), `model {"text":"[The tool has answered.]"}`, goingOn), thinkingOf("2048")), "repaired round of tools whose first thoughts are lost"},

		{"Claude is told that it may think between tools", claude, with(with(hello, declaring("f")), thinkingOf("2048")), `{"systemInstruction":{"role":"user","parts":[` + hint + `]},` + with(with(with(hello, declaring("f")), validated), thinkingOf("2048"))[1:], "added system text: interleaved thinking"},
		{"behind what the client says", claude, `{"systemInstruction":{"parts":[{"text":"be brief"}]},` + with(with(hello, declaring("f")), thinkingOf("2048"))[1:], `{"systemInstruction":{"role":"user","parts":[{"text":"be brief"},` + hint + `]},` + with(with(with(hello, declaring("f")), validated), thinkingOf("2048"))[1:], "added system text: interleaved thinking"},
		{"Claude's calls are always validated", claude, with(with(hello, declaring("f", "g")), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}`), with(with(hello, declaring("f", "g")), `"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["g"]}}`), "mapped tool choice ANY to VALIDATED"},
		{"unless there must not be any", claude, with(with(hello, declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}`), "", ""},
		{"Gemini can be made to call", flash, with(with(hello, declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","gone","f"]}}`), with(with(hello, declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`), ""},
		{"a choice from some is validated", flash, with(with(hello, declaring("f", "g")), `"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}}`), with(with(hello, declaring("f", "g")), `"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","allowedFunctionNames":["f"]}}`), ""},
		{"a choice of what is not there", flash, with(with(hello, declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["gone"]}}`), with(with(hello, declaring("f")), `"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`), "dropped choice of a tool that is not declared"},
		{"ids are given, first come, first served", claude, contents(hi, `model {"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"g","args":{}}},{"functionCall":{"name":"f","args":{}}}`, `user {"functionResponse":{"name":"f","response":{"n":1}}},{"functionResponse":{"name":"f","response":{"n":2}}},{"functionResponse":{"name":"g","response":{"n":3}}}`),
			contents(hi, `model {"functionCall":{"id":"call","name":"f","args":{}}},{"functionCall":{"id":"call_2","name":"g","args":{}}},{"functionCall":{"id":"call_3","name":"f","args":{}}}`, `user {"functionResponse":{"id":"call","name":"f","response":{"n":1}}},{"functionResponse":{"id":"call_2","name":"g","response":{"n":3}}},{"functionResponse":{"id":"call_3","name":"f","response":{"n":2}}}`), ""},
		{"Claude's own search is a function", claude, with(hello, `"tools":[{"urlContext":{}}]`),
			with(with(hello, `"tools":[{"functionDeclarations":[{"name":"google_search","description":"Searches the web with Google and returns what was found, with its sources. Use it for whatever is recent or has to be looked up. It also reads the pages that it is given.","parameters":{"type":"object","properties":{"query":{"type":"string","description":"What to search for, or to find out from the pages, in plain words"},"urls":{"type":"array","items":{"type":"string"},"description":"Addresses of pages to read; leave it out to search the web"}},"required":["query"]}}]}]`), validated),
			"mapped tool urlContext to a function"},
		{"code runs beside no functions", flash, with(hello, `"tools":[{"codeExecution":{}},{"functionDeclarations":[{"name":"f"}]}]`), with(hello, `"tools":[{"functionDeclarations":[{"name":"f"}]}]`), "dropped tool codeExecution beside functions"},
		{"code runs alone", flash, with(hello, `"tools":[{"codeExecution":{}}]`), "", ""},
		{"a part has one kind of data", flash, contents(hi, `model {"executableCode":{"language":"PYTHON","code":"1"},"codeExecutionResult":{"outcome":"OUTCOME_OK"}}`, hi), contents(hi, `model {"executableCode":{"language":"PYTHON","code":"1"}}`, hi), ""},
		{"executed code becomes text for other families", claude, contents(hi, `model {"executableCode":{"language":"PYTHON","code":"1"}},{"text":"a"}`, hi), contents(hi, `model {"text":"[executableCode] {\"language\":\"PYTHON\",\"code\":\"1\"}"},{"text":"a"}`, hi), ""},
		{"an image model takes little", image, `{"systemInstruction":{"parts":[{"text":"paint"}]},` + with(with(hello, declaring("f")), `"generationConfig":{"candidateCount":3,"responseMimeType":"application/json","responseModalities":["IMAGE","AUDIO"],"thinkingConfig":{"includeThoughts":true},"imageConfig":{"aspectRatio":"16:9","imageSize":"4k","quality":"hd"}}`)[1:],
			with(contents(`user {"text":"paint"}`, hi), `"generationConfig":{"candidateCount":1,"responseModalities":["IMAGE"],"imageConfig":{"aspectRatio":"16:9","imageSize":"4K"}}`),
			"mapped system instruction to a user turn; dropped tools; dropped response format for an image model; dropped candidates after 1; dropped response modality AUDIO; dropped imageConfig.quality; dropped thinking"},
		{"an image model is told of calls", image, loop(signedCall), contents(hi, `model {"text":"[call of tool f] {}"}`, `user {"text":"[result of tool f] {\"output\":\"x\"}"}`), "mapped tool calls and results to text"},
		{"no form of a picture elsewhere", flash, with(hello, `"generationConfig":{"imageConfig":{"aspectRatio":"16:9"}}`), hello, "dropped generationConfig.imageConfig"},
		{"what a model cannot read", gptoss, contents(`user {"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`), contents(`user {"text":"a"},{"text":"[data of type image/png, which this model cannot read]"}`), "dropped data of type image/png"},
		{"Claude does not draw", claude, contents(hi, `model {"text":"look"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`, hi), contents(hi, `model {"text":"look"},{"text":"[data of type image/png]"}`, hi), "dropped data of type image/png in a turn of the model's"},
		{"data without a type", flash, contents(`user {"inlineData":{"data":"AAAA"}}`), contents(`user {"inlineData":{"mimeType":"image/png","data":"AAAA"}}`), ""},
		{"the schema of the answer", flash, with(hello, `"generationConfig":{"responseJsonSchema":{"type":"object","properties":{"a":{"type":["string","null"]}},"additionalProperties":false,"$schema":"x"}}`),
			with(hello, `"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","description":"No extra properties allowed","properties":{"a":{"type":"string","description":"(nullable)","nullable":true}}}}`), ""},
		{"any JSON is no schema", flash, with(hello, `"generationConfig":{"responseJsonSchema":{}}`), with(hello, `"generationConfig":{"responseMimeType":"application/json"}`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := prompt(t, c.in)
			before := string(wire.EncodeRequest(in))
			out := ForAntigravity(in, models.Of(c.model), AntigravityOptions{})
			if c.want == "" {
				c.want = c.in
			}
			body := wire.EncodeRequest(out.Prompt)
			if want := string(wire.EncodeRequest(prompt(t, c.want))); string(body) != want {
				t.Errorf("got\n%s\nwant\n%s", body, want)
			}
			if got := texts(out.Notes); got != c.notes {
				t.Errorf("got notes\n%q, want\n%q", got, c.notes)
			}
			if refusal := refused(t, c.model, body); refusal != nil {
				t.Errorf("%s: %s", refusal.Rule, refusal.Message)
			}
			if after := string(wire.EncodeRequest(in)); after != before {
				t.Errorf("the client's prompt changed to\n%s", after)
			}
		})
	}
}
