package anthropic

import (
	"strconv"
	"strings"

	"perigee/internal/lib/rawjson"
)

// cite puts the citations of the answer on its open text, each once.
func (e *encoder) cite() {
	ground := e.trail.All()
	if ground == nil {
		return
	}
	for _, s := range ground.Supports[min(e.cited, len(ground.Supports)):] {
		for _, i := range s.Sources {
			if i >= 0 && i < int64(len(ground.Sources)) {
				e.citeSource(&ground.Sources[i], s.Text)
			}
		}
	}
	e.cited = len(ground.Supports)
}

// writeSearches writes the searches that the client has not received, and their results, as blocks
// of this API.
func (e *encoder) writeSearches() {
	for _, g := range e.trail.New() {
		e.searches += max(1, len(g.Queries))
		e.close()
		e.serverUse("web_search", "query", strings.Join(g.Queries, "; "))
		found := rawjson.Writer{}
		found.Array()
		for _, c := range g.Sources {
			found.Object().Members(`"type":"web_search_result"`).Key("url").String(c.URL).Key("title").String(c.Title)
			found.Members(`"encrypted_content":"","page_age":null`).EndObject()
		}
		e.result("web_search_tool_result", found.EndArray().Buf)
	}
}

// serverUse writes the use of a tool that the provider has run itself, with one argument.
func (e *encoder) serverUse(name, argument, value string) {
	e.servers++
	e.server = "srvtoolu_" + e.answer.ID + "_" + strconv.Itoa(e.servers)
	var input rawjson.Writer
	input.Object().Key(argument).String(value).EndObject()
	e.use(&toolBlock{"server_tool_use", e.server, name, input.Buf})
}

// part writes parts without an event of their own: code that the provider ran and its output, and
// any other part as JSON.
func (e *encoder) part(raw []byte) {
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch string(key) {
		case "executableCode":
			e.close()
			e.markAnswer()
			var code string
			c.Read(nil, "code", &code)
			e.serverUse("code_execution", "code", code)
			return
		case "codeExecutionResult":
			e.close()
			e.markAnswer()
			e.result("code_execution_tool_result", codeResult(c.Raw()))
			return
		}
	}
	e.writeText("```json\n" + string(raw) + "\n```\n")
}

func codeResult(raw []byte) []byte {
	var output, outcome string
	rawjson.NewCursor(raw).Read(nil, "output", &output, "outcome", &outcome)
	stdout, stderr, code := output, "", int64(0)
	if outcome != "OUTCOME_OK" && outcome != "" {
		stdout, stderr, code = "", output, 1
	}
	var w rawjson.Writer
	w.Object().Members(`"type":"code_execution_result"`).Key("stdout").String(stdout).Key("stderr").String(stderr)
	return w.Key("return_code").Int(code).Members(`"content":[]`).EndObject().Buf
}
