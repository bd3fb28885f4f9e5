package simulator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/simulator/rules"
)

// turn is the current turn of a conversation.
type turn struct {
	text       string // the last prompt, without directives
	directives []directive
	rounds     int               // replies with calls since that prompt
	results    []*rules.Response // answers of tools that no reply has followed yet
}

// readTurn goes back to the last prompt: the last user content that has more than tool results.
// Text that an agent puts next to such results is not a prompt, unless it holds directives;
// otherwise a loop would not end.
func readTurn(contents []rules.Content) turn {
	var t turn
	replied := false
	for _, content := range slices.Backward(contents) {
		results, calls := answersAndCalls(content)
		if calls > 0 {
			t.rounds++
		}
		if content.Role == "model" && len(results) == 0 {
			replied = true
			continue
		}
		if !replied {
			t.results = append(results, t.results...)
		}
		directives, text := parseDirectives(promptText(content))
		if len(results) > 0 && len(directives) == 0 {
			continue
		}
		t.text, t.directives = text, directives
		return t
	}
	return t
}

func answersAndCalls(content rules.Content) (answers []*rules.Response, calls int) {
	for _, p := range content.Parts {
		if p.Response != nil {
			answers = append(answers, p.Response)
		}
		if p.Call != nil {
			calls++
		}
	}
	return answers, calls
}

// promptText returns the text of the person: agents put context, in tags, before and after it in
// parts of their own.
func promptText(content rules.Content) string {
	best := ""
	for _, p := range content.Parts {
		if text := strings.TrimSpace(p.Text); text != "" && !p.Thought && (best == "" || !strings.HasPrefix(text, "<")) {
			best = text
		}
	}
	return best
}

// due returns the directives of this round; after the last [[then]] there are none.
func (t turn) due() []directive {
	if all := steps(t.directives); t.rounds < len(all) {
		return all[t.rounds]
	}
	return nil
}

// obey carries out one directive.
func (q question) obey(c *candidate, d directive, turn turn) {
	switch d.name {
	case "text":
		c.parts = append(c.parts, textPart(d.value))
	case "think":
		if last := len(c.parts) - 1; last >= 0 && c.parts[last].Thought {
			c.parts[last] = thoughtPart(*c.parts[last].Text + "\n" + d.value) // one thought has one signature
			break
		}
		c.parts = append(c.parts, thoughtPart(d.value))
	case "call":
		q.call(c, d.value, d.args)
	case "image":
		c.parts = append(c.parts, q.imagePart())
	case "ground":
		q.ground(c, d.value)
	case "code":
		sum := fmt.Sprintf("%x\n", q.derive("code " + d.value)[:4])
		c.parts = append(c.parts, part{Code: &code{"PYTHON", d.value}}, part{Result: &codeResult{"OUTCOME_OK", sum}})
	case "tokens":
		n, _ := strconv.Atoi(d.value)
		c.parts = append(c.parts, textPart(words(n)))
	case "echo":
		c.parts = append(c.parts, textPart(q.echo(d.value, turn)))
	}
}

func (q question) echo(what string, turn turn) string {
	switch what {
	case "system":
		return q.parsed.System
	case "tools":
		var names []string
		for _, f := range q.parsed.Functions {
			names = append(names, f.Name)
		}
		return strings.Join(append(names, q.parsed.BuiltIns...), " ")
	}
	return turn.text
}

// call adds a function call unless the request forbids them all.
func (q question) call(c *candidate, name string, args json.RawMessage) {
	if q.parsed.ToolMode == "NONE" {
		return
	}
	if args == nil {
		args = json.RawMessage("{}")
		i := slices.IndexFunc(q.parsed.Functions, func(f rules.Function) bool { return f.Name == name })
		if i >= 0 && len(q.parsed.Functions[i].Parameters) > 0 {
			if made, ok := instance(q.parsed.Functions[i].Parameters, false).(map[string]any); ok {
				args = encode(made)
			}
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, args) == nil {
		args = compact.Bytes()
	}
	c.parts = append(c.parts, part{Call: &functionCall{Name: name, Args: args}})
}

// improvise answers a prompt without directives.
func (q question) improvise(c *candidate, turn turn) {
	config := q.parsed.Config
	if name := q.forcedCall(); name != "" {
		q.call(c, name, nil)
		return
	}
	if len(turn.results) == 0 {
		if name, args := q.mentionedCall(turn.text); name != "" && q.parsed.ToolMode != "NONE" {
			q.call(c, name, args)
			return
		}
	}
	schema := config.ResponseSchema
	if len(schema) == 0 {
		schema = config.ResponseJSON
	}
	switch {
	case config.ResponseMIME == "application/json" && len(schema) > 0:
		c.parts = append(c.parts, textPart(string(encode(instance(schema, true)))))
	case config.ResponseMIME == "application/json":
		c.parts = append(c.parts, textPart(string(encode(map[string]string{"answer": q.plainAnswer(turn)}))))
	case len(turn.results) > 0:
		c.parts = append(c.parts, textPart(q.plainAnswer(turn)))
	case q.model.Family == rules.Image || slices.Contains(config.Modalities, "IMAGE"):
		c.parts = append(c.parts, q.imagePart())
	case q.search: // a tool that may be used is not a reason to use it
		q.ground(c, turn.text)
	default:
		c.parts = append(c.parts, textPart(q.plainAnswer(turn)))
	}
}

// plainAnswer quotes the prompt or the results, so that a reader sees the input that arrived.
func (q question) plainAnswer(turn turn) string {
	var lines []string
	for _, result := range turn.results {
		lines = append(lines, fmt.Sprintf("The tool %s answered: %s", result.Name, quote(resultText(result.Response), 200)))
	}
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	if turn.text == "" {
		return "You said nothing that I can read."
	}
	return "You said: " + quote(turn.text, 80)
}

// forcedCall returns the function that the request demands a call of, or "".
func (q question) forcedCall() string {
	if q.parsed.ToolMode != "ANY" {
		return ""
	}
	if len(q.parsed.AllowedNames) > 0 {
		return q.parsed.AllowedNames[0]
	}
	if len(q.parsed.Functions) > 0 {
		return q.parsed.Functions[0].Name
	}
	return ""
}

// mentionedCall finds "use NAME" or "call NAME {json}" in a text, for a declared NAME; the first in
// the text wins.
func (q question) mentionedCall(text string) (name string, args json.RawMessage) {
	first := -1
	for _, f := range q.parsed.Functions {
		if !strings.Contains(text, f.Name) {
			continue // agents declare a hundred functions; a pattern for each would cost
		}
		pattern := `(?i:\b(?:use|call)\s+(?:the\s+)?)[` + "`" + `"']?` + regexp.QuoteMeta(f.Name) + `(?:[^\w.:-]|[.:-](?:\W|$)|$)`
		at := regexp.MustCompile(pattern).FindStringIndex(text)
		if at == nil || first >= 0 && at[0] >= first {
			continue
		}
		first, name, args = at[0], f.Name, nil
		rest := strings.TrimLeft(text[at[0]+strings.Index(text[at[0]:], f.Name)+len(f.Name):], " \t\n`\"':")
		if strings.HasPrefix(rest, "{") {
			if json.NewDecoder(strings.NewReader(rest)).Decode(&args) != nil {
				args = nil
			}
		}
	}
	return name, args
}

// resultText returns the readable part of a tool result.
func resultText(raw json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for _, key := range []string{"result", "output", "content", "error", "text"} {
			if inner, ok := object[key]; ok {
				return resultText(inner)
			}
		}
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return string(raw)
	}
	return compact.String()
}

// quote returns the start of a text on one line, cut between characters.
func quote(text string, limit int) string {
	text = strings.Join(strings.Fields(text), " ")
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "…"
}

// words returns a text of n words of one token each by the estimate of this package.
func words(n int) string {
	list := []string{"one", "two", "six", "ten", "red", "sky", "sea", "oak"}
	var b strings.Builder
	for i := range min(max(n, 0), 1_000_000) {
		b.WriteString(list[i%len(list)])
		b.WriteByte(' ')
	}
	return strings.TrimSuffix(b.String(), " ")
}

// ground answers with one sentence per source, and with the byte ranges of each source.
func (q question) ground(c *candidate, query string) {
	query = quote(query, 80)
	sentences := []string{fmt.Sprintf("The first source speaks about %s.", query), fmt.Sprintf("The second source says more about %s.", query)}
	g := &grounding{Queries: []string{query}, Entry: map[string]string{"renderedContent": "<div class=\"container\"></div>"}}
	text := ""
	for i, sentence := range sentences {
		if i > 0 {
			text += " "
		}
		domain := fmt.Sprintf("source%d.example.com", i+1)
		var chunk groundingChunk
		chunk.Web.URI = "https://vertexaisearch.cloud.google.com/grounding-api-redirect/" + base62(q.derive(domain), 24)
		chunk.Web.Title, chunk.Web.Domain = domain, domain
		g.Chunks = append(g.Chunks, chunk)
		g.Supports = append(g.Supports, groundingClaim{Segment: segment{len(text), len(text) + len(sentence), sentence}, Indices: []int{i}, Confidence: []float64{0.9}})
		text += sentence
	}
	c.parts = append(c.parts, textPart(text))
	c.grounding = g
}

// sizes are the provider's pixel sizes at 1K.
var sizes = map[string]image.Point{
	"1:1": {1024, 1024}, "2:3": {848, 1264}, "3:2": {1264, 848}, "3:4": {896, 1200}, "4:3": {1200, 896},
	"4:5": {928, 1152}, "5:4": {1152, 928}, "9:16": {768, 1376}, "16:9": {1376, 768}, "21:9": {1584, 672},
}

// imagePart returns a PNG image of the requested size, in one colour that is derived from the
// question.
func (q question) imagePart() part {
	size, ok := sizes[q.parsed.Config.AspectRatio]
	if !ok {
		size = sizes["1:1"]
	}
	switch q.parsed.Config.ImageSize {
	case "2K":
		size = size.Mul(2)
	case "4K":
		size = size.Mul(4)
	}
	return part{Inline: &inlineData{"image/png", plainImage(size, q.derive("picture"))}}
}

// plainImage returns a PNG image in one colour, in base64.
func plainImage(size image.Point, tone []byte) string {
	palette := color.Palette{color.RGBA{tone[0], tone[1], tone[2], 255}, color.White}
	var buffer bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&buffer, image.NewPaletted(image.Rectangle{Max: size}, palette)); err != nil {
		panic("simulator: " + err.Error()) // a buffer takes everything
	}
	return base64.StdEncoding.EncodeToString(buffer.Bytes())
}
