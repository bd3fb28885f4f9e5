package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/dialect/openai"
)

// saying is a request with one message of the user's and whatever else.
func saying(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

// talking is a request with these messages.
func talking(messages ...string) string { return `{"messages":[` + strings.Join(messages, ",") + `]}` }

const (
	userHi   = `{"role":"user","content":"hi"}`
	geminiHi = `{"role":"user","parts":[{"text":"hi"}]}`
)

func callOf(id, name string) string {
	return `{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"{}"}}`
}

func calling(calls ...string) string {
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func called(id, name string) string {
	return `{"functionCall":{"id":"` + id + `","name":"` + name + `","args":{}}}`
}

func answering(id, text string) string {
	return `{"role":"tool","tool_call_id":"` + id + `","content":"` + text + `"}`
}

func answered(id, name, text string) string {
	return `{"functionResponse":{"id":"` + id + `","name":"` + name + `","response":{"output":"` + text + `"}}}`
}

func turnsOf(list ...string) string { return `{"contents":[` + strings.Join(list, ",") + `]}` }

func modelTurn(parts ...string) string {
	return `{"role":"model","parts":[` + strings.Join(parts, ",") + `]}`
}
func userTurn(parts ...string) string {
	return `{"role":"user","parts":[` + strings.Join(parts, ",") + `]}`
}

// What the model is sent for a conversation, and what the client is told about it.
func TestConversation(t *testing.T) {
	for name, c := range map[string]struct{ body, want, notes string }{
		"a text": {talking(userHi), turnsOf(geminiHi), ""},
		"the role after the content": {
			talking(`{"content":"hi","role":"user"}`), turnsOf(geminiHi), ""},
		"system and developer, in order": {
			talking(`{"role":"system","content":"a"}`, `{"role":"developer","content":[{"type":"text","text":"b"}]}`, userHi),
			`{"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},"contents":[` + geminiHi + `]}`, ""},
		"a system message in the middle": {
			talking(userHi, `{"role":"system","content":"a"}`, userHi),
			turnsOf(geminiHi, `{"role":"system","parts":[{"text":"a"}]}`, geminiHi), ""},
		"nothing but a system message": {
			talking(`{"role":"system","content":"a"}`), `{"systemInstruction":{"parts":[{"text":"a"}]},"contents":[]}`, ""},
		"an image in a system message": {
			talking(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`, userHi), turnsOf(geminiHi),
			"dropped messages[].content[] of role system that is not text"},
		"an empty message": {talking(userHi, `{"role":"assistant","content":""}`, `{"role":"user","content":[]}`), turnsOf(geminiHi), ""},
		"the model begins": {
			talking(`{"role":"assistant","content":"yes?"}`, userHi),
			turnsOf(modelTurn(`{"text":"yes?"}`), geminiHi), ""},
		"a named user":    {talking(`{"role":"user","name":"bob","content":"hi"}`), turnsOf(geminiHi), ""},
		"a list of texts": {talking(`{"role":"user","content":["a","",{"type":"text","text":"b"}]}`), turnsOf(userTurn(`{"text":"a"},{"text":"b"}`)), ""},
		"a refusal": {
			talking(userHi, `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, `{"role":"assistant","content":null,"refusal":"never"}`),
			turnsOf(geminiHi, modelTurn(`{"text":"no"}`), modelTurn(`{"text":"never"}`)),
			"mapped messages[].content[].refusal; mapped messages[].refusal"},
		"thinking with its seal": {
			talking(userHi, `{"role":"assistant","content":"b","reasoning_content":"a","extra_content":{"google":{"thought_signature":"dA==","reasoning_signature":"cg=="}}}`),
			turnsOf(geminiHi, modelTurn(`{"thought":true,"text":"a","thoughtSignature":"cg=="}`, `{"text":"b","thoughtSignature":"dA=="}`)), ""},
		"thinking without a signature": {
			talking(userHi, `{"role":"assistant","content":"b","reasoning_content":"a"}`, `{"role":"assistant","content":"c","reasoning":"a"}`),
			turnsOf(geminiHi, modelTurn(`{"thought":true,"text":"a"},{"text":"b"}`), modelTurn(`{"thought":true,"text":"a"},{"text":"c"}`)), ""},
		"a seal without text": {
			talking(userHi, `{"role":"assistant","content":null,"extra_content":{"google":{"thought_signature":"dA=="}}}`),
			turnsOf(geminiHi, modelTurn(`{"text":"","thoughtSignature":"dA=="}`)), ""},
		"a sealed call": {
			talking(userHi, calling(`{"id":"c1","type":"function","index":0,"function":{"name":"f","arguments":"{\"a\": 1}"},"extra_content":{"google":{"thought_signature":"cw=="}}}`)),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"id":"c1","name":"f","args":{"a": 1}},"thoughtSignature":"cw=="}`)), ""},
		"the model's pictures": {
			talking(userHi, `{"role":"assistant","content":"look","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"},"index":0}],"annotations":[]}`),
			turnsOf(geminiHi, modelTurn(`{"text":"look"}`, `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`)), ""},
		"unknown members": {
			talking(`{"role":"user","content":[{"type":"text","text":"hi","cache_control":{}}],"weight":1}`), turnsOf(geminiHi),
			"dropped messages[].weight"},
	} {
		t.Run(name, func(t *testing.T) { check(t, c.body, c.want, c.notes) })
	}
}

func check(t *testing.T, body, want, notes string) {
	t.Helper()
	req, prompt := decode(t, body)
	if got := string(gemini.EncodeRequest(prompt)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := noteText(req.Lost()); got != notes {
		t.Errorf("notes %q, want %q", got, notes)
	}
}

func noteText(list []perigee.Note) string {
	var all []string
	for _, n := range list {
		all = append(all, n.String())
	}
	return strings.Join(all, "; ")
}

// Calls and their results, in the ways that clients write them.
func TestToolResults(t *testing.T) {
	f, g := called("1", "f"), called("2", "g")
	calls, turn := calling(callOf("1", "f"), callOf("2", "g")), modelTurn(f, g)
	rf, rg := answered("1", "f", "a"), answered("2", "g", "b")
	for name, c := range map[string]struct{ body, want, notes string }{
		"in order": {
			talking(userHi, calls, answering("1", "a"), answering("2", "b")), turnsOf(geminiHi, turn, userTurn(rf, rg)), ""},
		"out of order": {
			talking(userHi, calls, answering("2", "b"), answering("1", "a")), turnsOf(geminiHi, turn, userTurn(rf, rg)), ""},
		"with the user in between": {
			talking(userHi, calls, answering("2", "b"), userHi, answering("1", "a")), turnsOf(geminiHi, turn, userTurn(rf, rg), geminiHi), ""},
		"after the user": {
			talking(userHi, calls, userHi, answering("2", "b"), answering("1", "a")), turnsOf(geminiHi, turn, userTurn(rf, rg), geminiHi), ""},
		"calls in two messages": {
			talking(userHi, calling(callOf("1", "f")), calling(callOf("2", "g")), answering("1", "a"), answering("2", "b")),
			turnsOf(geminiHi, modelTurn(f), modelTurn(g), userTurn(rf, rg)), ""},
		"the same id in each turn": {
			talking(userHi, calling(callOf("1", "f")), answering("1", "a"), calling(callOf("1", "g")), answering("1", "b")),
			turnsOf(geminiHi, modelTurn(f), userTurn(rf), modelTurn(called("1", "g")), userTurn(answered("1", "g", "b"))), ""},
		"the same id twice in a turn": {
			talking(userHi, calling(callOf("1", "f"), callOf("1", "f")), answering("1", "a"), answering("1", "b")),
			turnsOf(geminiHi, modelTurn(f, f), userTurn(rf, answered("1", "f", "b"))), ""},
		"calls that are still open": {talking(userHi, calls), turnsOf(geminiHi, turn), ""},
		"a call without a result": {
			talking(userHi, calls, answering("2", "b"), `{"role":"assistant","content":"x"}`),
			turnsOf(geminiHi, turn, userTurn(`{"functionResponse":{"id":"1","name":"f","response":{"error":"the tool gave no result"}}}`, rg), modelTurn(`{"text":"x"}`)),
			"repaired messages[].tool_calls[] without a result"},
		"a result without a call": {
			talking(userHi, answering("9", "a")), turnsOf(geminiHi, userTurn(`{"text":"Result of the tool call 9:"},{"text":"a"}`)),
			"mapped messages[].tool_call_id without its call"},
		"two results for a call": {
			talking(userHi, calling(callOf("1", "f")), answering("1", "a"), answering("1", "b")),
			turnsOf(geminiHi, modelTurn(f), userTurn(rf), userTurn(`{"text":"Result of the tool call 1:"},{"text":"b"}`)),
			"mapped messages[].tool_call_id without its call"},
		"a result without an id": {
			talking(userHi, calls, `{"role":"tool","content":"a"}`, answering("2", "b")), turnsOf(geminiHi, turn, userTurn(rf, rg)),
			"repaired messages[].tool_call_id"},
		"a result with another id and the right name": {
			talking(userHi, calls, answering("1", "a"), `{"role":"tool","tool_call_id":"x","name":"g","content":"b"}`),
			turnsOf(geminiHi, turn, userTurn(rf, rg)), "repaired messages[].tool_call_id"},
		"functions": {
			talking(userHi, `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`, `{"role":"function","name":"f","content":"a"}`),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"name":"f","args":{}}}`), userTurn(`{"functionResponse":{"name":"f","response":{"output":"a"}}}`)), ""},
		"JSON stays text": {
			talking(userHi, calling(callOf("1", "f")), `{"role":"tool","tool_call_id":"1","content":"{\"a\":1}"}`),
			turnsOf(geminiHi, modelTurn(f), userTurn(`{"functionResponse":{"id":"1","name":"f","response":{"output":"{\"a\":1}"}}}`)), ""},
		"nothing": {
			talking(userHi, calling(callOf("1", "f")), `{"role":"tool","tool_call_id":"1","content":null}`),
			turnsOf(geminiHi, modelTurn(f), userTurn(answered("1", "f", ""))), ""},
		"parts and pictures": {
			talking(userHi, calls, `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"b"}]}`, answering("2", "b")),
			turnsOf(geminiHi, turn, userTurn(`{"functionResponse":{"id":"1","name":"f","response":{"output":"a\nb"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}`, rg)), ""},
		"malformed arguments": {
			talking(userHi, calling(`{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": "}}`)),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"id":"1","name":"f","args":{"arguments":"{\"a\": "}}}`)),
			"repaired messages[].tool_calls[].function.arguments"},
		"arguments that are no object": {
			talking(userHi, calling(`{"id":"1","type":"function","function":{"name":"f","arguments":"[1]"}}`)),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"id":"1","name":"f","args":{"arguments":"[1]"}}}`)),
			"repaired messages[].tool_calls[].function.arguments"},
		"arguments that are not a text": {
			talking(userHi, calling(`{"id":"1","function":{"name":"f","arguments":{"a":1}}}`)),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"id":"1","name":"f","args":{"a":1}}}`)), ""},
		"no arguments": {
			talking(userHi, calling(`{"id":"1","function":{"name":"f","arguments":""}}`, `{"id":"2","function":{"name":"g"}}`)), turnsOf(geminiHi, turn), ""},
		"a custom tool": {
			talking(userHi, calling(`{"id":"1","type":"custom","custom":{"name":"f","input":"a \"b\""}}`), answering("1", "a")),
			turnsOf(geminiHi, modelTurn(`{"functionCall":{"id":"1","name":"f","args":{"input":"a \"b\""}}}`), userTurn(rf)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, c.body, c.want, c.notes)
			_, prompt := decode(t, c.body)
			if refusal := refusalOf(t, prompt, "gemini-2.5-pro"); refusal != nil {
				t.Errorf("the provider would refuse it: %s", refusal.Message)
			}
		})
	}
}

func TestMedia(t *testing.T) {
	for name, c := range map[string]struct{ part, want string }{
		"data URL":             {`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`, `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`},
		"upper case":           {`{"type":"image_url","image_url":{"url":"DATA:image/PNG;charset=x;BASE64,AAAA"}}`, `{"inlineData":{"mimeType":"image/png","data":"AAAA"}}`},
		"no type":              {`{"type":"image_url","image_url":{"url":"data:;base64,AAAA"}}`, `{"inlineData":{"mimeType":"image/jpeg","data":"AAAA"}}`},
		"percent signs":        {`{"type":"image_url","image_url":{"url":"data:image/svg+xml,%3Csvg%2F%3E"}}`, `{"inlineData":{"mimeType":"image/svg+xml","data":"PHN2Zy8+"}}`},
		"URL alone":            {`{"type":"image_url","image_url":"https://example.com/a.webp"}`, `{"fileData":{"mimeType":"image/webp","fileUri":"https://example.com/a.webp"}}`},
		"web":                  {`{"type":"image_url","image_url":{"url":"https://example.com/a.PNG?x=1.gif"}}`, `{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.PNG?x=1.gif"}}`},
		"web, no extension":    {`{"type":"image_url","image_url":{"url":"https://example.com/a"}}`, `{"fileData":{"mimeType":"image/jpeg","fileUri":"https://example.com/a"}}`},
		"video":                {`{"type":"video_url","video_url":{"url":"https://example.com/a"}}`, `{"fileData":{"mimeType":"video/mp4","fileUri":"https://example.com/a"}}`},
		"wav":                  {`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`, `{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}`},
		"mp3":                  {`{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}}`, `{"inlineData":{"mimeType":"audio/mpeg","data":"AAAA"}}`},
		"pcm":                  {`{"type":"input_audio","input_audio":{"data":"AAAA","format":"pcm16"}}`, `{"inlineData":{"mimeType":"audio/pcm","data":"AAAA"}}`},
		"file, data URL":       {`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}`, `{"inlineData":{"mimeType":"application/pdf","data":"AAAA"}}`},
		"file, base64":         {`{"type":"file","file":{"filename":"a.csv","file_data":"AAAA"}}`, `{"inlineData":{"mimeType":"text/csv","data":"AAAA"}}`},
		"file, base64 unnamed": {`{"file":{"file_data":"AAAA"},"type":"file"}`, `{"inlineData":{"mimeType":"application/pdf","data":"AAAA"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, talking(`{"role":"user","content":[`+c.part+`]}`), turnsOf(userTurn(c.want)), "")
		})
	}
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                {``, "the text is empty"},
		"null":                   {`null`, "want an object, found null"},
		"a list":                 {`[]`, "want an object"},
		"a key twice":            {`{"model":"a","model":"b"}`, "duplicate key"},
		"no messages":            {`{"model":"m"}`, "messages: want at least one message"},
		"empty messages":         {`{"messages":[]}`, "messages: want at least one message"},
		"null messages":          {`{"messages":null}`, "messages: want at least one message"},
		"an empty message":       {talking(`{"role":"user","content":""}`), "messages[0].content: nothing is asked"},
		"messages of text":       {`{"messages":"hi"}`, "messages: want an array, found a string"},
		"a message of text":      {`{"messages":["hi"]}`, "messages[0]: want an object, found a string"},
		"no role":                {`{"messages":[{"content":"a"}]}`, `messages[0].role: want system, developer, user, assistant or tool, found ""`},
		"an unknown role":        {talking(userHi, `{"role":"robot"}`), `messages[1].role`},
		"a number for content":   {`{"messages":[{"role":"user","content":1}]}`, "messages[0].content: want a string, found a number"},
		"a number for text":      {talking(`{"role":"user","content":[{"type":"text","text":1}]}`), "messages[0].content[0].text: want a string, found a number"},
		"an unknown part":        {talking(userHi, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"hologram"}]}`), `messages[1].content[1].type: want text, image_url, input_audio, file or refusal, found "hologram"`},
		"an image from nowhere":  {talking(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"a.png"}}]}`), "messages[0].content[0].image_url: want a data: or https: URL"},
		"a data URL cut short":   {talking(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64"}}]}`), "want a comma"},
		"a data URL of nothing":  {talking(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}]}`), "want data"},
		"a bad percent sign":     {talking(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain,%zz"}}]}`), "percent"},
		"audio without format":   {talking(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA"}}]}`), "want data and format"},
		"a file by id":           {talking(`{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}`), "messages[0].content[0].file: file_id names a file that perigee does not have; send it as file_data"},
		"an empty file":          {talking(`{"role":"user","content":[{"type":"file","file":{}}]}`), "want file_data"},
		"a call of nothing":      {talking(userHi, calling(`{"id":"1"}`)), "want a member function or custom"},
		"arguments by number":    {talking(userHi, calling(`{"id":"1","function":{"name":"f","arguments":1}}`)), "messages[1].tool_calls[0].function.arguments: want a string"},
		"input by number":        {talking(userHi, calling(`{"id":"1","custom":{"name":"f","input":1}}`)), "messages[1].tool_calls[0].custom.input: want a string"},
		"an unknown tool":        {saying(`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"mcp","server":"x"}]`), `tools[1]: want a tool of type function or custom, found type "mcp"`},
		"an unknown choice":      {saying(`,"tool_choice":"sometimes"`), `tool_choice: want auto, none, required, validated or an object, found "sometimes"`},
		"a choice of nothing":    {saying(`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function"}`), "tool_choice: want the name of a tool"},
		"a choice of a kind":     {saying(`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"tool"}`), "tool_choice.type: want function, custom or allowed_tools"},
		"a choice of a stranger": {saying(`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}`), `tool_choice: there is no tool "g" in tools`},
		"a stranger allowed":     {saying(`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}`), `tool_choice: there is no tool "g" in tools`},
		"an old stranger":        {saying(`,"functions":[{"name":"f"}],"function_call":{"name":"g"}`), `function_call: there is no tool "g" in tools`},
		"a format of no schema":  {saying(`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":null}}`), "response_format.json_schema.schema: want the schema"},
		"a schema of text":       {saying(`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":"y"}}`), "response_format.json_schema.schema: want an object"},
		"metadata of text":       {saying(`,"metadata":"x"`), "metadata: want an object"},
		"an unknown format":      {saying(`,"response_format":{"type":"grammar"}`), "response_format.type"},
		"an unknown effort":      {saying(`,"reasoning_effort":"extreme"`), "reasoning_effort: want none"},
		"no answers":             {saying(`,"n":0`), "n: want at least 1"},
		"a text for a number":    {saying(`,"temperature":"warm"`), "temperature: want a number that fits into 64 bits"},
		"a fraction of tokens":   {saying(`,"max_tokens":1.5`), "max_tokens: want a 64-bit integer"},
		"a number for stream":    {saying(`,"stream":1`), "stream: want a boolean"},
		"an object for tools":    {saying(`,"tools":{}`), "tools: want an array"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := DecodeRequest(perigee.Origin{Body: []byte(c.body)})
			if err == nil {
				_, err = req.Prompt()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			e := perigee.AsError(err)
			if e.Class != perigee.ClassInvalid {
				t.Errorf("class %s", e.Class)
			}
			// What is about a field names it where clients look for it.
			field, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "invalid JSON payload: "), ": ")
			var told struct{ Error struct{ Param string } }
			if err := json.Unmarshal(openai.EncodeError(400, e), &told); err != nil {
				t.Fatal(err)
			}
			if about := !strings.HasPrefix(field, "want") && strings.Contains(e.Message, ": want"); about && told.Error.Param != field {
				t.Errorf("param is %q, want %q", told.Error.Param, field)
			}
		})
	}
}
