package chat

import (
	"reflect"
	"slices"
	"testing"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/adapt/models"
	"perigee/internal/dialect/gemini"
)

// What the parameters of a request become, before they are adapted to a provider.
func TestOptions(t *testing.T) {
	config := func(members string) string {
		return `{"contents":[` + geminiHi + `],"generationConfig":{` + members + `}}`
	}
	read := `"tools":[{"functionDeclarations":[{"name":"read"}]}]`
	toolsOnly := `{"contents":[` + geminiHi + `],` + read + `}`
	choice := func(calling string) string {
		return `{"contents":[` + geminiHi + `],` + read + `,"toolConfig":{"functionCallingConfig":{` + calling + `}}}`
	}
	declare := `,"tools":[{"type":"function","function":{"name":"read"}}]`
	thinking := func(members string) string { return config(`"thinkingConfig":{` + members + `}`) }
	plain := turnsOf(geminiHi)
	for name, c := range map[string]struct{ more, want, notes string }{
		"nulls":                      {`,"temperature":null,"tools":null,"stop":null,"response_format":null,"novelty":null`, plain, ""},
		"unknown":                    {`,"novelty":1`, plain, "dropped novelty"},
		"old and new limit":          {`,"max_tokens":5,"max_completion_tokens":6`, config(`"maxOutputTokens":6`), "dropped max_tokens"},
		"old and new limit alike":    {`,"max_tokens":6,"max_completion_tokens":6`, config(`"maxOutputTokens":6`), ""},
		"one answer":                 {`,"n":1`, plain, ""},
		"a seed of 64 bits":          {`,"seed":9007199254740993`, config(`"seed":9007199254740993`), ""},
		"one stop":                   {`,"stop":"END"`, config(`"stopSequences":["END"]`), ""},
		"an empty stop":              {`,"stop":""`, plain, ""},
		"six stops":                  {`,"stop":["1","2","3","4","5","6"]`, config(`"stopSequences":["1","2","3","4","5","6"]`), ""},
		"no bias":                    {`,"logit_bias":{}`, plain, ""},
		"alternatives alone":         {`,"top_logprobs":2`, plain, "dropped top_logprobs"},
		"alternatives":               {`,"logprobs":true,"top_logprobs":2`, config(`"responseLogprobs":true,"logprobs":2`), ""},
		"text":                       {`,"response_format":{"type":"text"}`, plain, ""},
		"an object":                  {`,"response_format":{"type":"json_object"}`, config(`"responseMimeType":"application/json"`), ""},
		"a schema":                   {`,"response_format":{"json_schema":{"name":"x","schema":{"type":"object"}},"type":"json_schema"}`, config(`"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}`), ""},
		"words":                      {`,"modalities":["text"]`, plain, ""},
		"pictures":                   {`,"modalities":["image","text"]`, config(`"responseModalities":["IMAGE","TEXT"]`), ""},
		"speech":                     {`,"modalities":["text","audio"],"audio":{"voice":"x"}`, plain, "dropped modalities audio; dropped audio"},
		"usual words":                {`,"verbosity":"medium","store":false,"service_tier":"auto","parallel_tool_calls":true`, plain, ""},
		"no thinking":                {`,"reasoning_effort":"none"`, thinking(`"thinkingLevel":"none"`), ""},
		"some thinking":              {`,"reasoning_effort":"medium"`, thinking(`"includeThoughts":true,"thinkingLevel":"medium"`), ""},
		"the most thinking":          {`,"reasoning_effort":"max"`, thinking(`"includeThoughts":true,"thinkingLevel":"max"`), ""},
		"a reasoning budget":         {`,"reasoning":{"max_tokens":7,"exclude":true}`, thinking(`"includeThoughts":false,"thinkingBudget":7`), ""},
		"reasoning effort":           {`,"reasoning":{"effort":"low"}`, thinking(`"includeThoughts":true,"thinkingLevel":"low"`), ""},
		"reasoning off":              {`,"reasoning":{"enabled":false}`, thinking(`"thinkingBudget":0`), ""},
		"reasoning on":               {`,"reasoning":{"enabled":true,"summary":"auto"}`, thinking(`"includeThoughts":true`), "dropped reasoning.summary"},
		"thinking off":               {`,"thinking":{"budget_tokens":5,"type":"disabled"}`, thinking(`"thinkingBudget":0`), ""},
		"thinking on":                {`,"thinking":{"type":"enabled","budget_tokens":5}`, thinking(`"includeThoughts":true,"thinkingBudget":5`), ""},
		"the exact one holds":        {`,"google":{"thinking_config":{"thinking_level":"low"}},"reasoning_effort":"high"`, thinking(`"thinkingLevel":"low"`), "dropped reasoning_effort"},
		"the exact one holds, later": {`,"reasoning_effort":"high","extra_body":{"google":{"thinkingConfig":{"thinkingBudget":5,"novel":1}}}`, thinking(`"thinkingBudget":5`), "dropped google.thinking_config.novel; dropped reasoning_effort"},
		"google":                     {`,"google":{"cached_content":"c/1","safety_settings":[],"thought_tag_marker":"think"}`, `{"contents":[` + geminiHi + `],"cachedContent":"c/1","safetySettings":[]}`, "dropped google.thought_tag_marker"},
		"inside extra_body":          {`,"extra_body":{"top_k":5,"novelty":1}`, config(`"topK":5`), "dropped novelty"},

		"a tool":                 {declare, toolsOnly, ""},
		"auto":                   {declare + `,"tool_choice":"auto"`, toolsOnly, ""},
		"none":                   {declare + `,"tool_choice":"none"`, choice(`"mode":"NONE"`), ""},
		"required":               {declare + `,"tool_choice":"required"`, choice(`"mode":"ANY"`), ""},
		"the choice first":       {`,"tool_choice":{"type":"function","function":{"name":"read"}}` + declare, choice(`"mode":"ANY","allowedFunctionNames":["read"]`), ""},
		"some of the tools":      {declare + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"read"}}]}}`, choice(`"mode":"VALIDATED","allowedFunctionNames":["read"]`), ""},
		"one of some":            {declare + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"read"}}]}}`, choice(`"mode":"ANY","allowedFunctionNames":["read"]`), ""},
		"required without tools": {`,"tool_choice":"required"`, plain, "dropped tool_choice"},
		"a function":             {`,"functions":[{"name":"read"}],"function_call":{"name":"read"}`, choice(`"mode":"ANY","allowedFunctionNames":["read"]`), ""},
		"a strange member":       {`,"tools":[{"type":"function","cache_control":{},"function":{"name":"read","returns":{}}}]`, toolsOnly, "dropped tools[].function.returns"},
		"a custom tool": {`,"tools":[{"type":"custom","custom":{"name":"patch","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start"}}}}]`,
			`{"contents":[` + geminiHi + `],"tools":[{"functionDeclarations":[{"name":"patch","description":"d","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string","description":"The input of the tool, as plain text. It must match this lark grammar:\nstart"}},"required":["input"]}}]}]}`,
			""},
		"a search":                  {`,"web_search_options":{"user_location":{}}`, `{"contents":[` + geminiHi + `],"tools":[{"googleSearch":{}}]}`, "dropped web_search_options.user_location"},
		"a search beside functions": {declare + `,"web_search_options":{}`, `{"contents":[` + geminiHi + `],"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"read"}]}]}`, ""},
		"the provider's tools":      {`,"tools":[{"google_search":{}},{"type":"url_context","url_context":{}},{"codeExecution":{"a":1}}],"web_search_options":{}`, `{"contents":[` + geminiHi + `],"tools":[{"googleSearch":{}},{"urlContext":{}},{"codeExecution":{"a":1}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) { check(t, saying(c.more), c.want, c.notes) })
	}
}

// Gemini has one resolution for all images of a request, which is the finest that is asked for.
func TestImageDetail(t *testing.T) {
	image := func(detail string) string {
		return `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"` + detail + `}}`
	}
	part := `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`
	for name, c := range map[string]struct{ first, second, want, notes string }{
		"none":          {"", "", "", ""},
		"auto":          {`,"detail":"auto"`, "", "", ""},
		"low":           {`,"detail":"low"`, `,"detail":"low"`, "LOW", ""},
		"high":          {`,"detail":"high"`, `,"detail":"high"`, "HIGH", ""},
		"low and high":  {`,"detail":"low"`, `,"detail":"high"`, "HIGH", "mapped messages[].content[].image_url.detail"},
		"high and none": {`,"detail":"high"`, ``, "HIGH", "mapped messages[].content[].image_url.detail"},
		"low and none":  {`,"detail":"low"`, ``, "", "mapped messages[].content[].image_url.detail"},
		"none and low":  {``, `,"detail":"low"`, "", "mapped messages[].content[].image_url.detail"},
		"another":       {`,"detail":"ultra"`, ``, "", "dropped messages[].content[].image_url.detail ultra"},
	} {
		t.Run(name, func(t *testing.T) {
			want := `{"contents":[` + userTurn(part, part) + `]`
			if c.want != "" {
				want += `,"generationConfig":{"mediaResolution":"MEDIA_RESOLUTION_` + c.want + `"}`
			}
			req, prompt := decode(t, talking(`{"role":"user","content":[`+image(c.first)+`,`+image(c.second)+`]}`))
			sent, _, notes := adapt.ForGemini(prompt, models.Of("gemini-3-flash"))
			if got := string(gemini.EncodeRequest(sent)); got != want+`}` {
				t.Errorf("got  %s\nwant %s}", got, want)
			}
			if got := noteText(append(slices.Clone(req.Lost()), notes...)); got != c.notes {
				t.Errorf("notes %q, want %q", got, c.notes)
			}
		})
	}
}

// A request that is not decoded is refused only for what no server may get.
func TestOutline(t *testing.T) {
	image := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	for name, c := range map[string]struct {
		body    string
		refused bool
	}{
		"a path":                    {talking(`{"role":"user","content":[` + image("/etc/passwd") + `]}`), true},
		"a path of the file system": {talking(`{"role":"user","content":[{"type":"text","text":"a"},` + image("file:///etc/passwd") + `]}`), true},
		"a path without an object":  {talking(`{"role":"user","content":[{"type":"image_url","image_url":"/etc/passwd"}]}`), true},
		"a path before its type":    {talking(`{"content":[{"image_url":{"url":"/etc/passwd"},"type":"image_url"}],"role":"user"}`), true},
		"an escaped path":           {talking(`{"role":"user","content":[{"type":"image_\u0075rl","image_\u0075rl":{"url":"/etc/passwd"}}]}`), true},
		"a path in a video":         {talking(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"/etc/passwd"}}]}`), true},
		"a path in a result":        {talking(userHi, calling(callOf("x", "f")), `{"role":"tool","tool_call_id":"x","content":[`+image("/etc/passwd")+`]}`), true},
		"a path in an answer":       {talking(userHi, `{"role":"assistant","images":[`+image("/etc/passwd")+`]}`), true},
		"a path in extra_body":      {`{"extra_body":{"messages":[{"role":"user","content":[` + image("/etc/passwd") + `]}]}}`, true},
		"stream is a number":        {saying(`,"stream":1`), true},
		"no member of messages":     {`{"model":"m"}`, false},
		"an image":                  {talking(`{"role":"user","content":[` + image("https://example.com/a.png") + `]}`), false},
		"a path in a text":          {talking(`{"role":"user","content":"file:///etc/passwd"}`), false},
		"an unknown role":           {talking(`{"role":"critic","content":"a"}`), false},
		"a temperature of text":     {saying(`,"temperature":"warm"`), false},
		"a new type of part":        {talking(`{"role":"user","content":[{"type":"hologram","hologram":1}]}`), false},
	} {
		_, err := DecodeRequest(perigee.Origin{Body: []byte(c.body)})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The opening of a conversation has the instructions and the first turn of the user as the prompt
// has them.
func TestOpening(t *testing.T) {
	const system, first, second = `{"role":"system","content":"Be short."}`, `{"role":"user","content":"One"}`, `{"role":"user","content":[{"type":"text","text":"Two"}]}`
	answer := `{"role":"assistant","content":"Yes."}`
	bodies := []string{
		talking(first), talking(system, first, second, answer, second), talking(answer, answer, first, answer), talking(answer, system, first, answer, second),
		talking(system, system, first, calling(callOf("x", "f")), answering("x", "a"), second), talking(answering("x", "a"), first, answer),
		talking(system, `{"role":"user","content":""}`, answer, first, answer), talking(answer), `{"extra_body":` + talking(system, first, answer, second) + `}`,
	}
	for _, body := range capturedBodies(t) {
		bodies = append(bodies, string(body))
	}
	opening := func(p *perigee.Prompt) []any {
		first := slices.IndexFunc(p.Contents, func(c perigee.Content) bool { return c.Role != perigee.RoleModel })
		if first < 0 {
			return []any{p.System}
		}
		return []any{p.System, p.Contents[first]}
	}
	for _, body := range bodies {
		req, prompt := decode(t, body)
		if got, want := opening(req.Opening()), opening(prompt); !reflect.DeepEqual(got, want) {
			t.Errorf("%.300s\ngot  %+v\nwant %+v", body, got, want)
		}
	}
}

func TestEnvelope(t *testing.T) {
	req, err := DecodeRequest(perigee.Origin{ID: "1", Dialect: "x", Body: []byte(saying(`,"stream":true,"stream_options":{"include_usage":true,"novel":1},"prompt_cache_key":"s-1"`))})
	if err != nil {
		t.Fatal(err)
	}
	if req.ID != "1" || req.Model != "m" || !req.Stream || !req.Style.Usage || req.Dialect != perigee.DialectOpenAIChat || req.Client.Session != "s-1" {
		t.Errorf("got %+v", req.Origin)
	}
	if got := noteText(req.Lost()); got != "dropped stream_options.novel" {
		t.Errorf("notes %q", got)
	}
}
