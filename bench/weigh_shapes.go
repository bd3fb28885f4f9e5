package main

import (
	"bytes"
	"strconv"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A bodyShape is a body that has very much of one thing: before, then element again and again with
// commas between, then after.
// # in an element is its number.
type bodyShape struct {
	name                   string
	path                   string
	before, element, after string
}

// body makes a body of about size bytes.
func (s *bodyShape) body(size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 4096)
	b.WriteString(s.before)
	numbered := strings.Contains(s.element, "#")
	for i := 0; b.Len()+len(s.element)+len(s.after) < size || i == 0; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if numbered {
			b.WriteString(strings.ReplaceAll(s.element, "#", strconv.Itoa(i)))
		} else {
			b.WriteString(s.element)
		}
	}
	b.WriteString(s.after)
	return b.Bytes()
}

// atLimit is the shape with texts just long enough for a body of the size to be decoded. It is
// false where the shape is decoded as it is, or has no text to make longer.
func (s *bodyShape) atLimit(size int) (bodyShape, bool) {
	const text = `"a"`
	if !strings.Contains(s.element, ":"+text) && s.element != text {
		return bodyShape{}, false
	}
	first, _ := rawjson.CheckCount(s.body(0))
	second, err := rawjson.CheckCount([]byte(s.before + s.element + "," + s.element + s.after))
	if err != nil {
		return bodyShape{}, false // names that may not come twice
	}
	elements, members := second.Elements-first.Elements, second.Members-first.Members
	refused := func(n int) bool {
		pieces := size / (len(s.element) + n)
		count := rawjson.Count{Elements: pieces * elements, Members: pieces * members}
		if strings.Contains(s.name, "stored") {
			return count.ErrStored(size) != nil
		}
		return count.Err(size) != nil
	}
	if !refused(1) {
		return bodyShape{}, false
	}
	n := 1
	for refused(n) {
		n += n/32 + 1
	}
	limited := *s
	limited.name += ", at the limit"
	limited.element = strings.Replace(s.element, text, `"`+strings.Repeat("a", n)+`"`, 1)
	return limited, true
}

// The texts that elements are made of.
var (
	escapes    = strings.Repeat(`\u0000`, 10_000)
	lines      = strings.Repeat(`\n`, 10_000)
	characters = strings.Repeat(`\u00e4`, 10_000)
	plainText  = strings.Repeat(`a`, 60_000)
	nested     = strings.Repeat(`[`, 900) + strings.Repeat(`]`, 900)
	nestedMaps = strings.Repeat(`{"a":`, 400) + `0` + strings.Repeat(`}`, 400)
	blanks     = strings.Repeat(" \n", 30_000)
)

// listed returns shapes with one list each, which stands between before and after.
func listed(path, before, after string, elements ...[2]string) []bodyShape {
	var list []bodyShape
	for _, e := range elements {
		list = append(list, bodyShape{e[0], path, before + "[", e[1], "]" + after})
	}
	return list
}

// inObject returns shapes with one object each.
func inObject(path, before, after string, members ...[2]string) []bodyShape {
	var list []bodyShape
	for _, e := range members {
		list = append(list, bodyShape{e[0], path, before + "{", e[1], "}" + after})
	}
	return list
}

// values are elements of a list that is passed on as it is.
func values(name string) [][2]string {
	return [][2]string{
		{name + ": numbers", `1`}, {name + ": long numbers", `0.123456789`}, {name + ": strings", `"a"`}, {name + ": empty strings", `""`},
		{name + ": empty objects", `{}`}, {name + ": empty lists", `[]`}, {name + ": objects", `{"a":1}`},
		{name + ": deep lists", nested}, {name + ": deep objects", nestedMaps}, {name + ": escapes", `"` + escapes + `"`},
	}
}

// members are those of an object that is passed on as it is.
func members(name string) [][2]string {
	return [][2]string{{name + ": keys", `"#":1`}, {name + ": escaped keys", `"\u0061#":1`}, {name + ": objects", `"k#":{}`}, {name + ": long keys", `"` + plainText + `#":0`}}
}

// bodyShapes are all of them.
func bodyShapes() []bodyShape {
	var all []bodyShape
	for _, list := range [][]bodyShape{messagesBodies(), chatBodies(), responsesBodies(), geminiBodies(), otherBodies()} {
		all = append(all, list...)
	}
	return all
}

func messagesBodies() []bodyShape {
	const path = "/v1/messages"
	const head = `{"model":"` + quickModel + `","max_tokens":100,`
	const asked = `,"messages":[{"role":"user","content":"a"}]}`
	list := listed(path, head+`"messages":`, `}`, [][2]string{
		{"messages", `{"role":"user","content":"a"}`}, {"empty messages", `{"role":"user","content":""}`}, {"null messages", `null`},
		{"turns", `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`},
		{"system messages", `{"role":"system","content":"a"}`},
		{"calls and results", `{"role":"assistant","content":[{"type":"tool_use","id":"t#","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t#"}]}`},
		{"members of messages", `{"role":"user","content":"a","x#":1}`},
	}...)
	list = append(list, listed(path, head+`"messages":[{"role":"user","content":`, `}]}`, [][2]string{
		{"text blocks", `{"type":"text","text":"a"}`}, {"shortest text blocks", `{"text":"a"}`}, {"empty text blocks", `{"type":"text","text":""}`}, {"empty blocks", `{}`}, {"null blocks", `null`},
		{"cached text blocks", `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`},
		{"text of escapes", `{"type":"text","text":"` + escapes + `"}`}, {"text of line ends", `{"type":"text","text":"` + lines + `"}`},
		{"text of letters", `{"type":"text","text":"` + characters + `"}`}, {"plain text", `{"type":"text","text":"` + plainText + `"}`},
		{"images", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`},
		{"image links", `{"type":"image","source":{"type":"url","url":"https://a.example/#"}}`},
		{"documents", `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}}`},
		{"results", `{"type":"tool_result","tool_use_id":"#","content":"a"}`},
		{"unknown blocks", `{"type":"x#"}`}, {"search results", `{"type":"search_result","title":"a","source":"b","content":[{"type":"text","text":"c"}]}`},
	}...)...)
	list = append(list, listed(path, head+`"messages":[{"role":"assistant","content":`, `},{"role":"user","content":"a"}]}`, [][2]string{
		{"calls", `{"type":"tool_use","id":"t#","name":"f","input":{}}`},
		{"thinking blocks", `{"type":"thinking","thinking":"a","signature":"b"}`}, {"redacted thinking", `{"type":"redacted_thinking","data":"a"}`},
	}...)...)
	list = append(list, listed(path, head+`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":`, `}]}]}`,
		[][2]string{{"blocks of a result", `{"type":"text","text":"a"}`}, {"images of a result", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`}}...)...)
	list = append(list, listed(path, head+`"system":`, asked, [][2]string{{"system blocks", `{"type":"text","text":"a"}`}}...)...)
	list = append(list, listed(path, head+`"stop_sequences":`, asked, [][2]string{{"stop sequences", `"#"`}}...)...)
	list = append(list, listed(path, head+`"betas":`, asked, [][2]string{{"betas", `"a"`}}...)...)
	list = append(list, inObject(path, head+`"metadata":`, asked, members("metadata")...)...)
	list = append(list, bodyShape{"unknown members", path, head, `"x#":0`, asked}, bodyShape{"white space", path, head, blanks + `"x#":0`, asked})
	list = append(list, listed(path, head+`"tools":`, asked, [][2]string{
		{"tools", `{"name":"f#","input_schema":{}}`}, {"tools with a property", `{"name":"f#","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}`},
		{"nameless tools", `{}`},
	}...)...)
	list = append(list, listed(path, head+`"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"string","enum":`, `}}}}]`+asked, values("enum")...)...)
	list = append(list, inObject(path, head+`"tools":[{"name":"f","input_schema":{"type":"object","properties":`, `}}]`+asked, append(members("properties"), [2]string{"properties: schemas", `"p#":{"type":"string"}`})...)...)
	list = append(list, listed(path, head+`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":`, `}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a"}]}]}`, values("input")...)...)
	return list
}

func chatBodies() []bodyShape {
	const path = "/v1/chat/completions"
	const head = `{"model":"` + quickModel + `",`
	const asked = `,"messages":[{"role":"user","content":"a"}]}`
	list := listed(path, head+`"messages":`, `}`, [][2]string{
		{"messages", `{"role":"user","content":"a"}`}, {"empty messages", `{"role":"user","content":""}`}, {"null messages", `null`}, {"shortest messages", `{"role":"user"}`},
		{"turns", `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`},
		{"system messages", `{"role":"system","content":"a"}`}, {"developer messages", `{"role":"developer","content":"a"}`},
		{"calls and results", `{"role":"assistant","tool_calls":[{"id":"t#","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t#","content":"a"}`},
		{"results", `{"role":"tool","tool_call_id":"t#","content":"a"}`},
		{"members of messages", `{"role":"user","content":"a","x#":1}`},
		{"reasoning", `{"role":"assistant","content":"a","reasoning_content":"b"}`},
	}...)
	list = append(list, listed(path, head+`"messages":[{"role":"user","content":`, `}]}`, [][2]string{
		{"text parts", `{"type":"text","text":"a"}`}, {"shortest text parts", `{"text":"a"}`}, {"empty text parts", `{"type":"text","text":""}`}, {"empty parts", `{}`}, {"null parts", `null`},
		{"text of escapes", `{"type":"text","text":"` + escapes + `"}`}, {"text of line ends", `{"type":"text","text":"` + lines + `"}`},
		{"text of letters", `{"type":"text","text":"` + characters + `"}`}, {"plain text", `{"type":"text","text":"` + plainText + `"}`},
		{"images", `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`}, {"image links", `{"type":"image_url","image_url":"https://a.example/#"}`},
		{"sounds", `{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}`}, {"files", `{"type":"file","file":{"file_data":"data:text/plain;base64,AA=="}}`},
		{"unknown parts", `{"type":"x#"}`},
	}...)...)
	list = append(list, listed(path, head+`"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":`, `}]}`, [][2]string{
		{"calls", `{"id":"t#","type":"function","function":{"name":"f","arguments":"{}"}}`}, {"shortest calls", `{"function":{"name":"f"}}`}, {"empty calls", `{}`},
		{"arguments of numbers", `{"id":"t#","type":"function","function":{"name":"f","arguments":"{\"a\":[` + strings.Repeat(`1,`, 1000) + `1]}"}}`},
		{"broken arguments", `{"id":"t#","type":"function","function":{"name":"f","arguments":"\u0000"}}`},
	}...)...)
	list = append(list, listed(path, head+`"stop":`, asked, [][2]string{{"stop sequences", `"#"`}}...)...)
	list = append(list, listed(path, head+`"modalities":`, asked, [][2]string{{"modalities", `"a"`}}...)...)
	list = append(list, inObject(path, head+`"logit_bias":`, asked, members("logit_bias")...)...)
	list = append(list, inObject(path, head+`"metadata":`, asked, members("metadata")...)...)
	list = append(list, bodyShape{"unknown members", path, head, `"x#":0`, asked}, bodyShape{"white space", path, head, blanks + `"x#":0`, asked})
	list = append(list, listed(path, head+`"tools":`, asked, [][2]string{
		{"tools", `{"type":"function","function":{"name":"f#"}}`}, {"tools with a property", `{"type":"function","function":{"name":"f#","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}`},
		{"nameless tools", `{}`},
	}...)...)
	list = append(list, listed(path, head+`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","enum":`, `}}}}}]`+asked, values("enum")...)...)
	list = append(list, inObject(path, head+`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":`, `}}}]`+asked, append(members("properties"), [2]string{"properties: schemas", `"p#":{"type":"string"}`})...)...)
	list = append(list, inObject(path, head+`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":`, `}}}`+asked, append(members("answer schema"), [2]string{"answer schema: schemas", `"p#":{"type":"string"}`})...)...)
	return list
}

func responsesBodies() []bodyShape {
	const path = "/v1/responses"
	var list []bodyShape
	for _, store := range []string{"false", "true"} {
		head := `{"model":"` + quickModel + `","store":` + store + `,`
		label := map[string]string{"false": "", "true": ", stored"}[store]
		for _, s := range listed(path, head+`"input":`, `}`, [][2]string{
			{"items", `{"role":"user","content":"a"}`}, {"typed items", `{"type":"message","role":"user","content":"a"}`}, {"strings", `"a"`}, {"empty strings", `""`},
			{"empty items", `{}`}, {"null items", `null`}, {"turns", `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`},
			{"calls", `{"type":"function_call","call_id":"t#","name":"f","arguments":"{}"}`}, {"outputs", `{"type":"function_call_output","call_id":"t#","output":"a"}`},
			{"calls and outputs", `{"type":"function_call","call_id":"t#","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"t#","output":"a"}`},
			{"reasoning items", `{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}]}`}, {"sealed reasoning", `{"type":"reasoning","encrypted_content":"a"}`},
			{"developer items", `{"role":"developer","content":"a"}`}, {"unknown items", `{"type":"x#"}`}, {"members of items", `{"role":"user","content":"a","x#":1}`},
			{"items with id", `{"id":"m#","type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`},
		}...) {
			s.name += label
			list = append(list, s)
		}
		for _, s := range listed(path, head+`"input":[{"role":"user","content":`, `}]}`, [][2]string{
			{"text parts", `{"type":"input_text","text":"a"}`}, {"empty text parts", `{"type":"input_text","text":""}`}, {"empty parts", `{}`},
			{"text of escapes", `{"type":"input_text","text":"` + escapes + `"}`}, {"text of line ends", `{"type":"input_text","text":"` + lines + `"}`},
			{"text of letters", `{"type":"input_text","text":"` + characters + `"}`}, {"plain text", `{"type":"input_text","text":"` + plainText + `"}`},
			{"images", `{"type":"input_image","image_url":"data:image/png;base64,AA=="}`},
		}...) {
			s.name += label
			list = append(list, s)
		}
	}
	const head = `{"model":"` + quickModel + `","store":false,`
	const asked = `,"input":"a"}`
	list = append(list, listed(path, head+`"include":`, asked, [][2]string{{"include", `"a"`}, {"include that is known", `"reasoning.encrypted_content"`}}...)...)
	list = append(list, inObject(path, head+`"metadata":`, asked, members("metadata")...)...)
	list = append(list, bodyShape{"unknown members", path, head, `"x#":0`, asked}, bodyShape{"white space", path, head, blanks + `"x#":0`, asked})
	list = append(list, listed(path, head+`"tools":`, asked, [][2]string{
		{"tools", `{"type":"function","name":"f#"}`}, {"tools with a property", `{"type":"function","name":"f#","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}`},
		{"custom tools", `{"type":"custom","name":"f#"}`}, {"nameless tools", `{}`},
	}...)...)
	list = append(list, listed(path, head+`"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","enum":`, `}}}}]`+asked, values("enum")...)...)
	list = append(list, listed(path, head+`"input":[{"type":"function_call_output","call_id":"a","output":`, `}]}`, [][2]string{{"parts of an output", `{"type":"input_text","text":"a"}`}}...)...)
	list = append(list, listed(path, head+`"input":[{"type":"reasoning","summary":`, `},{"role":"user","content":"a"}]}`, [][2]string{{"summary parts", `{"type":"summary_text","text":"a"}`}}...)...)
	return list
}

func geminiBodies() []bodyShape {
	var list []bodyShape
	for _, way := range []struct{ label, path string }{
		{"", "/v1beta/models/" + quickModel + ":generateContent"},
		{", suffix", "/v1beta/models/" + quickModel + "-high:generateContent"},
	} {
		add := func(shapes []bodyShape) {
			for _, s := range shapes {
				s.name += way.label
				list = append(list, s)
			}
		}
		const asked = `,"contents":[{"role":"user","parts":[{"text":"a"}]}]}`
		add(listed(way.path, `{"contents":[{"role":"user","parts":`, `}]}`, [][2]string{
			{"text parts", `{"text":"a"}`}, {"empty text parts", `{"text":""}`}, {"empty parts", `{}`}, {"null parts", `null`}, {"unknown parts", `{"x#":1}`},
			{"text of escapes", `{"text":"` + escapes + `"}`}, {"text of line ends", `{"text":"` + lines + `"}`}, {"plain text", `{"text":"` + plainText + `"}`},
			{"images", `{"inlineData":{"mimeType":"image/png","data":"AA=="}}`}, {"files", `{"fileData":{"fileUri":"https://a.example/#"}}`},
			{"calls", `{"functionCall":{"name":"f","args":{}}}`}, {"results", `{"functionResponse":{"name":"f","response":{}}}`},
			{"signatures", `{"text":"a","thought":true,"thoughtSignature":"AA=="}`},
		}...))
		add(listed(way.path, `{"contents":`, `}`, [][2]string{
			{"contents", `{"role":"user","parts":[{"text":"a"}]}`}, {"contents of one part", `{"parts":{"text":"a"}}`}, {"empty contents", `{}`}, {"null contents", `null`},
			{"turns", `{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}`},
		}...))
		add(listed(way.path, `{"tools":`, asked, [][2]string{{"tools", `{}`}, {"builtin tools", `{"googleSearch":{}}`}}...))
		add(listed(way.path, `{"tools":[{"functionDeclarations":`, `}]`+asked, [][2]string{
			{"functions", `{"name":"f#"}`}, {"functions with a property", `{"name":"f#","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}}`}, {"nameless functions", `{}`},
		}...))
		add(inObject(way.path, `{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":`, `}}]}]`+asked, append(members("properties"), [2]string{"properties: schemas", `"p#":{"type":"STRING"}`})...))
		add(listed(way.path, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":`, `}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, values("args")...))
		add(listed(way.path, `{"generationConfig":{"stopSequences":`, `}`+asked, [][2]string{{"stop sequences", `"#"`}}...))
		add(listed(way.path, `{"safetySettings":`, asked, [][2]string{{"safety settings", `{}`}}...))
		add([]bodyShape{{"unknown members", way.path, `{`, `"x#":0`, asked}, {"white space", way.path, `{`, blanks + `"x#":0`, asked}})
	}
	count := "/v1beta/models/" + quickModel + ":countTokens"
	list = append(list, listed(count, `{"contents":[{"role":"user","parts":`, `}]}`, [][2]string{{"countTokens: text parts", `{"text":"a"}`}}...)...)
	batch := "/v1beta/models/gemini-embedding-001:batchEmbedContents"
	return append(list, listed(batch, `{"requests":`, `}`, [][2]string{
		{"batchEmbedContents: requests", `{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"}]}}`}, {"batchEmbedContents: models", `{"model":""}`}, {"batchEmbedContents: empty requests", `{}`},
	}...)...)
}

func otherBodies() []bodyShape {
	embed := `{"model":"gemini-embedding-001","input":`
	list := listed("/v1/embeddings", embed, `}`, [][2]string{
		{"texts", `"a"`}, {"empty texts", `""`}, {"tokens", `1`}, {"lists of tokens", `[1,2,3]`}, {"nulls", `null`}, {"objects", `{}`},
	}...)
	list = append(list, bodyShape{"unknown members", "/v1/embeddings", `{"model":"gemini-embedding-001",`, `"x#":0`, `,"input":"a"}`})
	const images = "/v1/images/generations"
	list = append(list, bodyShape{"images: unknown members", images, `{"model":"gemini-3-pro-image","prompt":"a",`, `"x#":0`, `}`},
		bodyShape{"images: prompt", images, `{"model":"gemini-3-pro-image","prompt":"` + plainText + `"`, `"x#":"` + plainText + `"`, `}`})
	list[len(list)-1].before += ","
	const count = "/v1/messages/count_tokens"
	return append(list, listed(count, `{"model":"`+quickModel+`","messages":[{"role":"user","content":`, `}]}`, [][2]string{
		{"text blocks", `{"type":"text","text":"a"}`}, {"empty blocks", `{}`}, {"plain text", `{"type":"text","text":"` + plainText + `"}`},
	}...)...)
}
