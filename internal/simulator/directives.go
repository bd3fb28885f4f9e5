package simulator

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directive is one [[name: value]] of a prompt.
type directive struct {
	name  string
	value string
	args  json.RawMessage // of call: the JSON after the function's name; nil when there is none
}

// directiveHelp is every directive there is, in the order they are documented.
var directiveHelp = []struct{ name, form, about string }{
	{"text", "[[text: hello]]", "answer with this text"},
	{"think", "[[think: plan]]", "think this first (only if the request asks for thoughts)"},
	{"call", `[[call: read_file {"path":"a"}]]`, "call a function; several directives are parallel calls; without JSON, the arguments are generated"},
	{"then", "[[then]]", "the directives that follow are for the next answer of the turn, after the tool results"},
	{"image", "[[image]]", "an image in the requested aspect ratio"},
	{"ground", "[[ground: query]]", "an answer with web sources"},
	{"code", "[[code: print(1)]]", "executed code and its result"},
	{"tokens", "[[tokens: 200]]", "a text of this many words, one token each"},
	{"echo", "[[echo]]", "repeat the last user text; also [[echo: system]] and [[echo: tools]]"},
	{"finish", "[[finish: MAX_TOKENS]]", "end with this finish reason; with MALFORMED_FUNCTION_CALL or UNEXPECTED_TOOL_CALL and no other directive, the content is empty"},
	{"block", "[[block: SAFETY]]", "a block reason instead of candidates"},
	{"chunks", "[[chunks: 20]]", "stream the text in this many chunks"},
	{"pace", "[[pace: 50ms]]", "the time between chunks"},
	{"usage", "[[usage: last|every|late]]", "the chunks with usage; late is an extra chunk after the finish reason"},
}

func knownDirective(name string) bool {
	return slices.ContainsFunc(directiveHelp, func(d struct{ name, form, about string }) bool { return d.name == name })
}

// parseDirectives takes the directives out of a text. Double brackets around anything else stay
// text.
func parseDirectives(text string) (found []directive, rest string) {
	var kept strings.Builder
	for {
		before, after, ok := strings.Cut(text, "[[")
		kept.WriteString(before)
		if !ok {
			return found, strings.TrimSpace(kept.String())
		}
		d, remaining, ok := parseDirective(after)
		if !ok {
			kept.WriteString("[[")
			text = after
			continue
		}
		found = append(found, d)
		text = remaining
	}
}

// parseDirective reads one directive, after its opening brackets.
func parseDirective(text string) (d directive, remaining string, ok bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })
	if end <= 0 || !knownDirective(text[:end]) {
		return d, "", false
	}
	d.name, text = text[:end], strings.TrimLeft(text[end:], " ")
	if remaining, ok := strings.CutPrefix(text, "]]"); ok {
		return d, remaining, true
	}
	text, ok = strings.CutPrefix(text, ":")
	if !ok {
		return d, "", false
	}
	if d.name == "call" {
		return parseCall(d, text)
	}
	d.value, remaining, ok = strings.Cut(text, "]]")
	d.value = strings.TrimSpace(d.value)
	return d, remaining, ok
}

// parseCall reads "NAME {json}]]". The JSON is decoded rather than searched for its end, because
// arrays in it may end in two brackets as well.
func parseCall(d directive, text string) (directive, string, bool) {
	text = strings.TrimLeft(text, " ")
	end := strings.IndexAny(text, " {]\n\t")
	if end <= 0 {
		return d, "", false
	}
	d.value, text = text[:end], strings.TrimLeft(text[end:], " \n\t")
	if strings.HasPrefix(text, "{") {
		decoder := json.NewDecoder(strings.NewReader(text))
		if decoder.Decode(&d.args) != nil {
			return d, "", false
		}
		text = strings.TrimLeft(text[decoder.InputOffset():], " \n\t")
	}
	remaining, ok := strings.CutPrefix(text, "]]")
	return d, remaining, ok
}

// delivery is how an answer is sent, as far as directives and faults decide it.
type delivery struct {
	chunks             int           // 0 to divide by words
	pace               time.Duration // between chunks
	usage              usageMode
	finish             string // overrides the finish reason
	block              string // block reason; nothing is answered
	cumulativeThoughts bool
	noFinish           bool
}

type usageMode string

const (
	usageByFamily usageMode = ""
	usageLast     usageMode = "last"
	usageEvery    usageMode = "every"
	usageLate     usageMode = "late"
	usageNone     usageMode = "none" // by the fault usage_missing only
)

// take applies a directive that concerns delivery and reports whether it was one. Malformed values
// are ignored.
func (d *delivery) take(given directive) bool {
	switch given.name {
	case "chunks":
		d.chunks, _ = strconv.Atoi(given.value)
	case "pace":
		d.pace, _ = time.ParseDuration(given.value)
	case "usage":
		if mode := usageMode(given.value); mode == usageLast || mode == usageEvery || mode == usageLate {
			d.usage = mode
		}
	case "finish":
		d.finish = given.value
	case "block":
		d.block = given.value
		if d.block == "" {
			d.block = "SAFETY"
		}
	default:
		return false
	}
	return true
}

// steps splits directives at [[then]].
func steps(all []directive) [][]directive {
	var out [][]directive
	step := []directive{}
	for _, d := range all {
		if d.name == "then" {
			out, step = append(out, step), []directive{}
			continue
		}
		step = append(step, d)
	}
	return append(out, step)
}
