package roundtrip

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// A conversation is what an agent and a model said to each other, independent of any dialect.
type conversation struct {
	system   []string
	rounds   []round
	tools    []tool
	choice   string // auto, any, none, the name of a tool, or empty
	settings settings
}

// A round is what the user says, in one or more messages, and what the model makes of it. After a
// round with calls the user may say nothing beside the results.
type round struct {
	said    [][]piece
	text    string
	calls   []call
	arrival []int // the order in which the results of the calls come
}

// A piece is a text, or a file of a type.
type piece struct {
	text string
	mime string
	data string // base64
}

type call struct {
	id, name, args string
	result         result
}

type result struct {
	texts  []string
	failed bool
	files  []piece
}

func (r *result) text() string { return strings.Join(r.texts, "\n") }

type tool struct{ name, description, schema string }

type settings struct {
	temperature, topP *float64
	limit             *int64
	stop              []string
	schema            string // of the answer
}

var (
	runes = rapid.RuneFrom([]rune("abcXYZ019 \n\t\r\"\\/<>&'{}[]:,é漢字🙂𝄞\u2028\u2029\u0000\u0007\u007f\ufeff\u00ad"))
	texts = rapid.StringOfN(runes, 1, 40, -1)
	names = rapid.StringMatching(`[a-zA-Z_][a-zA-Z0-9_-]{0,20}`)
)

func anyConversation(t *rapid.T) *conversation {
	c := &conversation{
		system:   rapid.SliceOfN(texts, 0, 2).Draw(t, "system"),
		tools:    rapid.SliceOfNDistinct(rapid.Custom(anyTool), 0, 4, func(t tool) string { return t.name }).Draw(t, "tools"),
		settings: anySettings(t),
	}
	if len(c.tools) > 0 {
		c.choice = rapid.SampledFrom([]string{"", "auto", "any", "none", c.tools[0].name}).Draw(t, "choice")
	}
	count := rapid.IntRange(1, 6).Draw(t, "rounds")
	for i := range count {
		after := i > 0 && len(c.rounds[i-1].calls) > 0
		c.rounds = append(c.rounds, c.anyRound(t, i, after, i == count-1))
	}
	return c
}

// anyRound draws the i-th round. After results the user need not speak, and in the last round the
// model has not yet.
func (c *conversation) anyRound(t *rapid.T, i int, after, last bool) round {
	var r round
	least := 1
	if after {
		least = 0
	}
	message := rapid.SliceOfN(rapid.Custom(anyPiece), 1, 3)
	r.said = rapid.SliceOfN(message, least, 2).Draw(t, "said")
	if last {
		return r
	}
	calls := rapid.IntRange(0, 4).Draw(t, "calls")
	if calls == 0 || rapid.Bool().Draw(t, "speaks") {
		r.text = texts.Draw(t, "text")
	}
	for n := range calls {
		name := names.Draw(t, "name")
		if len(c.tools) > 0 && rapid.Bool().Draw(t, "declared") {
			name = c.tools[n%len(c.tools)].name
		}
		id := fmt.Sprintf("call_%s_%d_%d", rapid.StringMatching(`[a-zA-Z0-9_-]{0,8}`).Draw(t, "id"), i, n)
		r.calls = append(r.calls, call{id: id, name: name, args: anyObject(t, 2), result: anyResult(t)})
		r.arrival = append(r.arrival, n)
	}
	r.arrival = rapid.Permutation(r.arrival).Draw(t, "arrival")
	return r
}

func anyPiece(t *rapid.T) piece {
	switch rapid.IntRange(0, 4).Draw(t, "piece") {
	case 0:
		return anyImage(t)
	case 1:
		return piece{mime: "application/pdf", data: anyData(t)}
	}
	return piece{text: texts.Draw(t, "text")}
}

func anyImage(t *rapid.T) piece {
	return piece{mime: rapid.SampledFrom([]string{"image/png", "image/jpeg", "image/webp"}).Draw(t, "mime"), data: anyData(t)}
}

func anyData(t *rapid.T) string {
	return base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "data"))
}

func anyResult(t *rapid.T) result {
	r := result{texts: rapid.SliceOfN(texts, 0, 2).Draw(t, "result"), failed: rapid.Bool().Draw(t, "failed")}
	if rapid.IntRange(0, 3).Draw(t, "with files") == 0 {
		r.files = rapid.SliceOfN(rapid.Custom(anyImage), 1, 2).Draw(t, "files")
	}
	return r
}

func anyTool(t *rapid.T) tool {
	return tool{name: names.Draw(t, "tool"), description: rapid.OneOf(rapid.Just(""), texts).Draw(t, "description"),
		schema: `{"type":"object","properties":` + anySchemas(t, 2) + `,"required":[]}`}
}

// anySchemas draws the properties of a schema.
func anySchemas(t *rapid.T, depth int) string {
	return object(t, 3, func() string {
		switch kind := rapid.SampledFrom([]string{"string", "integer", "enum", "object", "array"}).Draw(t, "type"); {
		case kind == "enum":
			return `{"type":"string","enum":[` + quote(t, texts.Draw(t, "enum")) + `]}`
		case kind == "object" && depth > 0:
			return `{"type":"object","properties":` + anySchemas(t, depth-1) + `}`
		case kind == "array":
			return `{"type":"array","items":{"type":"number","maximum":` + number(t) + `}}`
		case kind == "integer":
			return `{"type":"integer","description":` + quote(t, texts.Draw(t, "description")) + `}`
		}
		return `{"type":"string"}`
	})
}

func anySettings(t *rapid.T) settings {
	var s settings
	if rapid.Bool().Draw(t, "has temperature") {
		s.temperature = new(rapid.Float64Range(0, 2).Draw(t, "temperature"))
	}
	if rapid.Bool().Draw(t, "has top p") {
		s.topP = new(rapid.Float64Range(0, 1).Draw(t, "top p"))
	}
	if rapid.Bool().Draw(t, "has limit") {
		s.limit = new(rapid.Int64Range(1, 1<<40).Draw(t, "limit"))
	}
	s.stop = rapid.SliceOfN(texts, 0, 4).Draw(t, "stop")
	if rapid.IntRange(0, 3).Draw(t, "has schema") == 0 {
		s.schema = `{"type":"object","properties":` + anySchemas(t, 1) + `}`
	}
	return s
}

// anyObject draws the text of a JSON object.
func anyObject(t *rapid.T, depth int) string {
	return object(t, 3, func() string { return anyValue(t, depth) })
}

func anyValue(t *rapid.T, depth int) string {
	switch kind := rapid.IntRange(0, 5).Draw(t, "value"); {
	case kind == 0 && depth > 0:
		return anyObject(t, depth-1)
	case kind == 1 && depth > 0:
		return "[" + anyValue(t, depth-1) + "," + anyValue(t, depth-1) + "]"
	case kind == 2:
		return rapid.SampledFrom([]string{"true", "false", "null", "[]", "{}", `""`}).Draw(t, "literal")
	case kind == 3:
		return number(t)
	}
	return quote(t, texts.Draw(t, "string"))
}

// object writes an object with up to most members, each name once.
func object(t *rapid.T, most int, value func() string) string {
	keys := rapid.SliceOfNDistinct(texts, 0, most, rapid.ID[string]).Draw(t, "keys")
	members := make([]string, len(keys))
	for i, key := range keys {
		members[i] = quote(t, key) + ":" + value()
	}
	return "{" + strings.Join(members, ",") + "}"
}

// number draws numbers that many a language cannot hold: they are texts to us.
func number(t *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "-1", "1.10", "-0.0", "1e300", "9007199254740993", "123456789012345678901234567890", "0.1000000000000000055511151231257827"}).Draw(t, "number")
}

// quote writes a string as JSON, as one client would or another.
func quote(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "escaped") {
		b, _ := json.Marshal(s)
		return string(b)
	}
	return string(write(s))
}
