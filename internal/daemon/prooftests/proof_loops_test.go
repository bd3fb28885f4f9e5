package prooftests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/testing/daemontest"
)

var loops = flag.Int("loops", 8, "how many loops of tools TestToolLoops goes through for each family and dialect")

// The families, each by a model that the gateway has.
var loopModels = map[string]string{
	"claude":   "claude-opus-4-6-thinking",
	"gemini-3": "gemini-3-flash",
	"gemini-2": "gemini-2.5-flash",
	"gpt-oss":  "gpt-oss-120b-medium",
}

// An agent talks to a model in one dialect and calls its tools, as programs of that dialect do.
// Some agents are careless: they lose results and thinking, and some change their model in the
// middle.
type agent struct {
	t       *testing.T
	g       provided
	random  *rand.Rand
	dialect talk
	model   string
	history []any
	forgets bool // thinking is not sent back
	keeps   bool // thinking without a signature is sent back, too
	signs   bool // a client of the Gemini API that forgets thinking sends back the signatures of calls
}

// provided is a daemon with providers that list what they have refused.
type provided interface {
	URL() string
	Violations() []string
}

type object = map[string]any

// A talk is how an agent speaks in a dialect.
type talk struct {
	path    func(model string) string
	request func(a *agent) object
	user    func(text string) object
	// take keeps an answer in the history and returns the ids and names of the calls in it.
	take   func(a *agent, answer object) (calls [][2]string)
	result func(call [2]string, text string) object
	// withPicture adds a picture to a result.
	withPicture func(result object)
	// words is a text that stands beside results.
	words func(text string) object
	// together says that all results stand in one message.
	together func(results []any) object
}

// Two hundred loops per family and dialect, by hand with -loops 200: the provider, which is strict,
// finds nothing to refuse, whichever of the two ways to it is taken.
func TestToolLoops(t *testing.T) {
	t.Parallel()
	for family, model := range loopModels {
		for name, dialect := range talks {
			for _, continues := range []string{"media", "anything", "nothing"} { // where observers disagree about the end of a turn
				switches := rules.StrictSwitches()
				switches.TurnContinuesWith = continues
				t.Run(fmt.Sprintf("%s in %s, a turn continues with %s", family, name, continues), func(t *testing.T) {
					t.Parallel()
					loop(t, daemontest.StartAntigravityWith(t, switches, "keep_thinking: "+fmt.Sprint(len(name)%2 == 0)), dialect, model)
				})
				if name == "gemini" || family == "gpt-oss" {
					continue // what speaks the official API's own dialect is sent on as it is, careless or not; and it has no GPT-OSS
				}
				t.Run(fmt.Sprintf("%s in %s on the official API, a turn continues with %s", family, name, continues), func(t *testing.T) {
					t.Parallel()
					provider, url := daemontest.StartSimulator(t, simulator.Options{Switches: switches})
					loop(t, &daemontest.Antigravity{Gateway: daemontest.Start(t, daemontest.OneUpstream(url), nil), Provider: provider}, dialect, model)
				})
			}
		}
	}
}

// loop has agents go through loops of tools.
func loop(t *testing.T, g *daemontest.Antigravity, dialect talk, model string) {
	t.Helper()
	rounds, loops := 0, *loops
	if testing.Short() {
		loops = min(loops, 2)
	}
	for n := range loops {
		a := &agent{t: t, g: g, random: rand.New(rand.NewPCG(uint64(n), 7)), dialect: dialect, model: model}
		a.forgets = a.random.IntN(2) == 0
		rounds += a.converse(n)
		if bad := g.Violations(); len(bad) > 0 {
			t.Fatalf("loop %d: %s", n, strings.Join(bad, "\n"))
		}
	}
	t.Logf("%d loops, %d requests, no violation", loops, rounds)
	if rounds <= 4*loops { // as many turns as there can be, each over after one request
		t.Error("no tools were called")
	}
}

// converse goes through some turns, each a loop of tools, and returns how many requests that took.
func (a *agent) converse(n int) (requests int) {
	for turn := range 2 + a.random.IntN(3) {
		if turn > 0 && a.random.IntN(4) == 0 {
			a.model = []string{"claude-opus-4-6-thinking", "gemini-3-flash", "gemini-2.5-flash"}[a.random.IntN(3)]
		}
		steps := 1 + a.random.IntN(3)
		a.history = append(a.history, a.dialect.user(a.question(n, turn, steps)))
		for step := 0; ; step++ {
			requests++
			calls := a.dialect.take(a, a.ask())
			if len(calls) == 0 {
				break
			}
			if step > steps {
				a.t.Fatalf("the model calls tools for ever: %v", calls)
			}
			a.answer(calls, turn, step)
			if a.random.IntN(12) == 0 {
				break // the user goes on without waiting for the model
			}
		}
	}
	return requests
}

// question tells the simulator what to think, call and say.
func (a *agent) question(n, turn, steps int) string {
	var q strings.Builder
	fmt.Fprintf(&q, "Conversation %d, turn %d.", n, turn)
	for step := range steps {
		fmt.Fprintf(&q, " [[think: I look at file %d of turn %d first]]", step, turn)
		for call := range 1 + a.random.IntN(3) {
			fmt.Fprintf(&q, ` [[call: read_file {"path":"dir/%d-%d.go"}]]`, step, call)
		}
		q.WriteString(" [[then]]")
	}
	q.WriteString(" [[text: all done]]")
	return q.String()
}

// answer gives the results of calls, in another order or not at all, as careless agents do, some
// with a picture or with a text beside them.
func (a *agent) answer(calls [][2]string, turn, step int) {
	if a.random.IntN(10) == 0 && len(calls) > 1 {
		calls = calls[1:] // one is lost
	}
	if a.random.IntN(4) == 0 {
		a.random.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	}
	var results []any
	for i, call := range calls {
		result := a.dialect.result(call, fmt.Sprintf("contents %d-%d-%d", turn, step, i))
		if a.random.IntN(4) == 0 {
			a.dialect.withPicture(result)
		}
		results = append(results, result)
	}
	if a.random.IntN(6) == 0 {
		results = append(results, a.dialect.words("The tools took a while."))
	}
	if a.dialect.together != nil {
		results = []any{a.dialect.together(results)}
	}
	a.history = append(a.history, results...)
}

// ask sends the conversation and returns the answer.
func (a *agent) ask() object {
	a.t.Helper()
	body, err := json.Marshal(a.dialect.request(a))
	if err != nil {
		a.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.g.URL()+a.dialect.path(a.model), bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("anthropic-version", "2023-06-01")
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	text := daemontest.Rest(a.t, resp)
	var answer object
	if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("status %d: %s\nasked %s\nrefused %v", resp.StatusCode, text, body, a.g.Violations())
	}
	return answer
}

const fileSchema = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"range":{"anyOf":[{"type":"array","items":{"type":"integer"}},{"type":"null"}],"default":null}},"required":["path"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`

var talks = map[string]talk{
	"chat": {
		path: func(string) string { return "/v1/chat/completions" },
		user: func(text string) object { return object{"role": "user", "content": text} },
		request: func(a *agent) object {
			return object{"model": a.model, "messages": append([]any{object{"role": "system", "content": "You read files."}}, a.history...), "reasoning_effort": "medium",
				"tools": []any{object{"type": "function", "function": object{"name": "read_file", "description": "reads", "parameters": json.RawMessage(fileSchema)}}}}
		},
		take: func(a *agent, answer object) (calls [][2]string) {
			message := answer["choices"].([]any)[0].(object)["message"].(object)
			if !a.keeps {
				delete(message, "reasoning_content")
			}
			if a.forgets {
				for _, c := range list(message["tool_calls"]) {
					delete(c.(object), "extra_content")
				}
			}
			a.history = append(a.history, message)
			for _, c := range list(message["tool_calls"]) {
				calls = append(calls, [2]string{c.(object)["id"].(string), c.(object)["function"].(object)["name"].(string)})
			}
			return calls
		},
		result: func(call [2]string, text string) object {
			return object{"role": "tool", "tool_call_id": call[0], "content": text}
		},
		withPicture: func(result object) {
			result["content"] = []any{object{"type": "text", "text": result["content"]}, object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + pixel}}}
		},
		words: func(text string) object { return object{"role": "user", "content": text} },
	},
	"responses": {
		path: func(string) string { return "/v1/responses" },
		user: func(text string) object { return object{"role": "user", "content": text} },
		request: func(a *agent) object {
			return object{"model": a.model, "input": a.history, "instructions": "You read files.", "store": false, "include": []string{"reasoning.encrypted_content"},
				"reasoning": object{"effort": "medium"},
				"tools":     []any{object{"type": "function", "name": "read_file", "strict": false, "parameters": json.RawMessage(fileSchema)}}}
		},
		take: func(a *agent, answer object) (calls [][2]string) {
			for _, item := range list(answer["output"]) {
				item := item.(object)
				if item["type"] == "reasoning" && a.forgets {
					continue
				}
				a.history = append(a.history, item)
				if item["type"] == "function_call" {
					calls = append(calls, [2]string{item["call_id"].(string), item["name"].(string)})
				}
			}
			return calls
		},
		result: func(call [2]string, text string) object {
			return object{"type": "function_call_output", "call_id": call[0], "output": text}
		},
		withPicture: func(result object) {
			result["output"] = []any{object{"type": "input_text", "text": result["output"]}, object{"type": "input_image", "image_url": "data:image/png;base64," + pixel}}
		},
		words: func(text string) object { return object{"role": "user", "content": text} },
	},
	"messages": {
		path: func(string) string { return "/v1/messages" },
		user: func(text string) object { return object{"role": "user", "content": text} },
		request: func(a *agent) object {
			return object{"model": a.model, "messages": a.history, "system": "You read files.", "max_tokens": 20000, "thinking": object{"type": "enabled", "budget_tokens": 4000},
				"tools": []any{object{"name": "read_file", "input_schema": json.RawMessage(fileSchema)}}}
		},
		take: func(a *agent, answer object) (calls [][2]string) {
			var content []any
			for _, block := range list(answer["content"]) {
				block := block.(object)
				if block["type"] == "thinking" && a.forgets {
					continue
				}
				content = append(content, block)
				if block["type"] == "tool_use" {
					calls = append(calls, [2]string{block["id"].(string), block["name"].(string)})
				}
			}
			a.history = append(a.history, object{"role": "assistant", "content": content})
			return calls
		},
		result: func(call [2]string, text string) object {
			return object{"type": "tool_result", "tool_use_id": call[0], "content": text}
		},
		withPicture: func(result object) {
			result["content"] = []any{object{"type": "text", "text": result["content"]},
				object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}}}
		},
		words:    func(text string) object { return object{"type": "text", "text": text} },
		together: func(results []any) object { return object{"role": "user", "content": results} },
	},
	"gemini": {
		path: func(model string) string { return "/v1beta/models/" + model + ":generateContent" },
		user: func(text string) object { return object{"role": "user", "parts": []any{object{"text": text}}} },
		request: func(a *agent) object {
			return object{"contents": a.history, "systemInstruction": object{"parts": []any{object{"text": "You read files."}}},
				"generationConfig": object{"thinkingConfig": object{"includeThoughts": true}},
				"tools":            []any{object{"functionDeclarations": []any{object{"name": "read_file", "parametersJsonSchema": json.RawMessage(fileSchema)}}}}}
		},
		take: func(a *agent, answer object) (calls [][2]string) {
			content := answer["candidates"].([]any)[0].(object)["content"].(object)
			var parts []any
			for _, part := range list(content["parts"]) {
				part := part.(object)
				if a.forgets && !a.signs {
					delete(part, "thoughtSignature")
				}
				if part["thought"] == true && a.forgets {
					continue
				}
				parts = append(parts, part)
				if call, ok := part["functionCall"].(object); ok {
					id, _ := call["id"].(string)
					calls = append(calls, [2]string{id, call["name"].(string)})
				}
			}
			content["parts"] = parts
			if len(parts) > 0 {
				a.history = append(a.history, content)
			}
			return calls
		},
		result: func(call [2]string, text string) object {
			response := object{"name": call[1], "response": object{"result": text}}
			if call[0] != "" {
				response["id"] = call[0]
			}
			return object{"functionResponse": response}
		},
		withPicture: func(result object) {
			result["functionResponse"].(object)["parts"] = []any{object{"inlineData": object{"mimeType": "image/png", "data": pixel}}}
		},
		words:    func(text string) object { return object{"text": text} },
		together: func(results []any) object { return object{"role": "user", "parts": results} },
	},
}

// pixel is the smallest picture there is.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
