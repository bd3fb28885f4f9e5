package anthropic

import (
	"fmt"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/dialect/gemini"
)

// decodeWhole reads a request with its conversation.
func decodeWhole(body []byte) (*perigee.Request, *Answer, error) {
	req, answer, err := DecodeRequest(perigee.Origin{Body: body})
	if err == nil {
		_, err = req.Prompt()
	}
	return req, answer, err
}

// decode returns a body as the provider would get it, and the notes.
func decode(t *testing.T, body string) (string, string) {
	t.Helper()
	req, err := DecodeCount(perigee.Origin{Body: []byte(body)}) // which has no need of max_tokens
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	prompt, err := req.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range req.Lost() {
		notes = append(notes, n.String())
	}
	return string(gemini.EncodeRequest(prompt)), strings.Join(notes, "; ")
}

func TestConversations(t *testing.T) {
	const user = `{"role":"user","content":"a"}`
	const said = `{"role":"user","parts":[{"text":"a"}]}`
	for _, c := range []struct{ name, messages, want, notes string }{
		{"role and type behind the content", `{"content":[{"text":"a","type":"text"}],"role":"user"}`, said, ""},
		{"null is absent", `{"role":"user","content":[{"type":"text","text":"a","citations":null,"cache_control":null}]}`, said, ""},
		{"messages without content vanish", user + `,{"role":"assistant","content":[]},{"role":"assistant","content":""},{"role":"user","content":null}`, said, ""},
		{"consecutive messages stay apart", user + `,` + user, said + `,` + said, ""},
		{"results in several messages become one content, in the order of the calls",
			user + `,{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"y","name":"g","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"y","content":"2"}]},{"role":"user","content":[{"type":"text","text":"and"},{"type":"tool_result","tool_use_id":"x","content":"1"}]}`,
			said + `,{"role":"model","parts":[{"functionCall":{"id":"x","name":"f","args":{}}},{"functionCall":{"id":"y","name":"g","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":"1"}}},{"functionResponse":{"id":"y","name":"g","response":{"output":"2"}}},{"text":"and"}]}`, ""},
		{"a result without its call keeps its id",
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"z","content":"1"}]}`,
			`{"role":"user","parts":[{"functionResponse":{"id":"z","name":"z","response":{"output":"1"}}}]}`, ""},
		{"ids that come again belong to the last call of that id",
			user + `,{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]},` +
				`{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}`,
			said + `,{"role":"model","parts":[{"functionCall":{"id":"x","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":""}}}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"x","name":"g","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"x","name":"g","response":{"output":""}}}]}`, ""},
		{"text that is JSON stays text",
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"z","content":"{\"a\":1}"}]}`,
			`{"role":"user","parts":[{"functionResponse":{"id":"z","name":"z","response":{"output":"{\"a\":1}"}}}]}`, ""},
		{"arguments that are no object are wrapped, missing ones are empty",
			user + `,{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":[1]},{"type":"tool_use","id":"y","name":"f"}]}`,
			said + `,{"role":"model","parts":[{"functionCall":{"id":"x","name":"f","args":{"arguments":[1]}}},{"functionCall":{"id":"y","name":"f","args":{}}}]}`,
			"repaired messages[].content[].input"},
		{"a seal goes to the next call, past text",
			user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"perigee.1.call.S"},{"type":"text","text":"b"},{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_use","id":"y","name":"f","input":{}}]}`,
			said + `,{"role":"model","parts":[{"text":"b"},{"functionCall":{"id":"x","name":"f","args":{}},"thoughtSignature":"S"},{"functionCall":{"id":"y","name":"f","args":{}}}]}`, ""},
		{"a foreign seal stays where it is",
			user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"S"},{"type":"tool_use","id":"x","name":"f","input":{}}]}`,
			said + `,{"role":"model","parts":[{"thought":true,"text":"","thoughtSignature":"S"},{"functionCall":{"id":"x","name":"f","args":{}}}]}`, ""},
		{"a page that was fetched is told with its text",
			user + `,{"role":"assistant","content":[{"type":"web_fetch_tool_result","tool_use_id":"s","content":{"type":"web_fetch_result","url":"https://example.com","retrieved_at":null,"content":{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"the page"}}}},` +
				`{"type":"web_fetch_tool_result","tool_use_id":"s","content":{"type":"web_fetch_result","url":"https://example.com/a","content":{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}}}]}`,
			said + `,{"role":"model","parts":[{"text":"Result of web fetch:\nurl: https://example.com\ntitle: T\nthe page"},{"text":"Result of web fetch:\nurl: https://example.com/a\ndocument: application/pdf"}]}`,
			"mapped web_fetch_tool_result blocks"},
		{"a data URL is data", `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"data:image/png;base64,aGk="}}]}`,
			`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes := decode(t, `{"messages":[`+c.messages+`]}`)
			if want := `{"contents":[` + c.want + `]}`; got != want || notes != c.notes {
				t.Errorf("got  %s (%s)\nwant %s (%s)", got, notes, want, c.notes)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"a"}]`
	const said = `"contents":[{"role":"user","parts":[{"text":"a"}]}]`
	tool := `"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}]`
	const f = `{"name":"f","parametersJsonSchema":{"type":"object"}}`
	const g = `{"name":"g","parametersJsonSchema":{"type":"object"}}`
	for _, c := range []struct{ name, members, want, notes string }{
		{"an instruction that was cleared is left out", `"system":"one","messages":[{"role":"system","content":"two","clear_at":"next_user_message"},{"role":"user","content":"a"},{"role":"system","content":"three","clear_at":"next_user_message"}]`,
			`{"systemInstruction":{"parts":[{"text":"one"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"system","parts":[{"text":"three"}]}]}`, ""},
		{"tools come and go", tool + `,"messages":[{"role":"user","content":"a"},{"role":"system","content":[{"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}},{"type":"tool_removal","tool":{"type":"tool_reference","name":"g"}},{"type":"tool_addition","tool":{"type":"tool_reference","name":"g"}}]}]`,
			`{` + said + `,"tools":[{"functionDeclarations":[` + g + `]}]}`, ""},
		{"a choice of one tool", hi + `,` + tool + `,"tool_choice":{"type":"tool","name":"g"}`,
			`{` + said + `,"tools":[{"functionDeclarations":[` + f + `,` + g + `]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}}`, ""},
		{"a choice of what is not there", hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`,
			`{` + said + `,"tools":[{"googleSearch":{}}]}`, "dropped tool_choice"},
		{"a choice of nothing without tools", hi + `,"tools":[],"tool_choice":{"type":"none"}`, `{` + said + `}`, ""},
		{"thinking with a budget beats effort", hi + `,"thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"low"}`,
			`{` + said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2000}}}`, "dropped output_config.effort"},
		{"adaptive without effort", hi + `,"thinking":{"type":"adaptive"}`, `{` + said + `,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":-1}}}`, ""},
		{"effort alone", hi + `,"output_config":{"effort":"medium"}`, `{` + said + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"medium"}}}`, ""},
		{"an edit of the context without a kind", hi + `,"context_management":{"edits":[{"type":null}]}`, `{` + said + `}`, "dropped context_management.edits[] "},
		{"more fields than anybody reads", hi + func() string {
			var b strings.Builder
			for i := range 100 {
				fmt.Fprintf(&b, `,"x%d":1`, i)
			}
			return b.String()
		}(), `{` + said + `}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, notes := decode(t, `{`+c.members+`}`)
			if strings.HasPrefix(c.name, "more fields") {
				if n := strings.Count(notes, ";") + 1; n != 65 || !strings.HasSuffix(notes, "dropped more than can be listed") {
					t.Errorf("%d notes: %s", n, notes)
				}
				notes = ""
			}
			if got != c.want || notes != c.notes {
				t.Errorf("got  %s (%s)\nwant %s (%s)", got, notes, c.want, c.notes)
			}
		})
	}
}

func TestSessions(t *testing.T) {
	for user, want := range map[string]string{
		`{"device_id":"d","account_uuid":"","session_id":"1b-2c"}`: "1b-2c",
		"user_abc_account__session_1b-2c":                          "1b-2c",
		"somebody":                                                 "somebody",
		`{"broken`:                                                 `{"broken`,
		`{"session_id":7}`:                                         `{"session_id":7}`,
		strings.Repeat("é", 100):                                   strings.Repeat("é", 64),
	} {
		if got := sessionOf(user); got != want {
			t.Errorf("%s: got %q, want %q", user, got, want)
		}
	}
}

func TestWrongRequestsNameThePlace(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"a"}],"max_tokens":"many"}`: "max_tokens",
		`{"messages":{}}`: "messages: want an array",
		`{"messages":[{"role":"user","content":7}]}`:   "messages[0].content: want an array",
		`{"messages":[{"role":"user","content":[7]}]}`: "messages[0].content[0]: want an object",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":7}]}]}]}`: "messages[0].content[0].content[].text: want a string",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":7}]}]}`:                          "messages[0].content[0].content: want an array",
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"ftp"}}]}]}`:                                      "unknown type of source: ftp",
		`{"messages":[{"role":"user","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]}]}`:                            "can only be in assistant messages",
		`{"messages":[{"role":"user","content":[{"type":"hologram"}]}]}`:                                                           `messages[0].content[0].type: there are no blocks of type "hologram" here`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"g"}}`:             "Tool 'g' not found in provided tools",
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}],"tool_choice":{"type":"function"}}`:                    "tool_choice.type: want auto, any, tool or none",
		`{"messages":[{"role":"user","content":"a"}],"output_config":{"effort":"extreme"}}`:                                        "output_config.effort: want low",
		`{"messages":[{"role":"user","content":"a"}],"output_format":{"type":"json_schema"}}`:                                      "output_format.schema",
		`{"a":1,"a":2}`: "duplicate key",
		`null`:          "the body is null",
	} {
		_, _, err := decodeWhole([]byte(body))
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || !strings.Contains(e.Message, want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}
