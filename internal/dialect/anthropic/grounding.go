package anthropic

import (
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/rawjson"
)

// appendCitation appends a place of the web that a piece of the answer rests on. The provider gives no handle for citing again.
func appendCitation(dst []byte, from *perigee.Source, cited string) []byte {
	dst = append(dst, `{"type":"web_search_result_location","cited_text":`...)
	dst = rawjson.AppendString(dst, cited)
	dst = append(dst, `,"url":`...)
	dst = rawjson.AppendString(dst, from.URL)
	dst = append(dst, `,"title":`...)
	dst = rawjson.AppendString(dst, from.Title)
	return append(dst, `,"encrypted_index":""}`...)
}

// cite puts the citations of the answer on its open text, each once.
func (e *encoder) cite(dst []byte) []byte {
	ground := e.trail.All()
	if ground == nil {
		return dst
	}
	for _, s := range ground.Supports[min(e.cited, len(ground.Supports)):] {
		for _, i := range s.Sources {
			if i >= 0 && i < int64(len(ground.Sources)) {
				dst = e.out.cite(dst, e.index, &ground.Sources[i], s.Text)
			}
		}
	}
	e.cited = len(ground.Supports)
	return dst
}

// searched writes the searches behind the answer that the client was not told of, and what they found, as the blocks that this
// API has for them.
func (e *encoder) searched(dst []byte) []byte {
	for _, g := range e.trail.Tell() {
		e.searches += max(1, len(g.Queries))
		input := append([]byte(nil), `{"query":`...)
		input = append(rawjson.AppendString(input, strings.Join(g.Queries, "; ")), '}')
		dst = e.serverUse(dst, "web_search", input)
		found := []byte{'['}
		for i, c := range g.Sources {
			if i > 0 {
				found = append(found, ',')
			}
			found = append(found, `{"type":"web_search_result","url":`...)
			found = rawjson.AppendString(found, c.URL)
			found = append(found, `,"title":`...)
			found = rawjson.AppendString(found, c.Title)
			found = append(found, `,"encrypted_content":"","page_age":null}`...)
		}
		dst = e.serverResult(dst, "web_search_tool_result", append(found, ']'))
	}
	return dst
}

// serverUse writes the use of a tool that the provider has run itself.
func (e *encoder) serverUse(dst []byte, name string, input []byte) []byte {
	dst = e.close(dst)
	e.servers++
	e.server = "srvtoolu_" + e.answer.ID + "_" + strconv.Itoa(e.servers)
	dst = e.out.call(dst, e.index, "server_tool_use", e.server, name, input)
	e.index++
	return dst
}

// serverResult writes what came of it.
func (e *encoder) serverResult(dst []byte, kind string, content []byte) []byte {
	dst = e.close(dst)
	dst = e.out.result(dst, e.index, kind, e.server, content)
	e.index++
	return dst
}

// part writes what has no event of its own: code that the provider ran, and its output; anything else as JSON.
func (e *encoder) part(dst []byte, raw []byte) []byte {
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		switch string(key) {
		case "executableCode":
			dst = e.close(dst)
			e.speak(dst)
			input := append([]byte(nil), `{"code":`...)
			input = append(rawjson.AppendString(input, member(c, "code")), '}')
			return e.serverUse(dst, "code_execution", input)
		case "codeExecutionResult":
			dst = e.close(dst)
			e.speak(dst)
			return e.serverResult(dst, "code_execution_tool_result", codeResult(c.Raw()))
		}
	}
	return e.say(dst, "```json\n"+string(raw)+"\n```\n")
}

func codeResult(raw []byte) []byte {
	output := member(rawjson.NewCursor(raw), "output")
	outcome := member(rawjson.NewCursor(raw), "outcome")
	out, trouble, code := output, "", "0"
	if outcome != "OUTCOME_OK" && outcome != "" {
		out, trouble, code = "", output, "1"
	}
	dst := append([]byte(nil), `{"type":"code_execution_result","stdout":`...)
	dst = rawjson.AppendString(dst, out)
	dst = append(dst, `,"stderr":`...)
	dst = rawjson.AppendString(dst, trouble)
	dst = append(dst, `,"return_code":`...)
	dst = append(dst, code...)
	return append(dst, `,"content":[]}`...)
}

// member reads one string out of an object.
func member(c *rawjson.Cursor, name string) (value string) {
	for key := range c.Object() {
		if string(key) == name && c.Kind() == rawjson.String {
			value = c.String()
		}
	}
	return value
}
