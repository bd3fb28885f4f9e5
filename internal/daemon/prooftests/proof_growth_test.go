package prooftests

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// A growing is a request that can be made as large as one likes: so many turns with a tool call
// each, and tools with about so many bytes of schema. The salt makes the ids of the calls new ones.
type growing struct {
	path string
	body func(turns, schema, salt int) string
}

var growings = map[string]growing{
	"chat":      {"/v1/chat/completions", growChat},
	"responses": {"/v1/responses", growResponses},
	"anthropic": {"/v1/messages", growAnthropic},
	"gemini":    {"/v1beta/models/gemini-2.5-pro:generateContent", growGemini},
}

// schemas are twenty schemas of together about size bytes, with many small things in them, as
// generated ones have.
func schemas(size int) (list []string) {
	for i := range 20 {
		var b strings.Builder
		b.WriteString(`{"type":"object","properties":{"path":{"type":"string"}`)
		for n := 0; b.Len() < size/20; n++ {
			fmt.Fprintf(&b, `,"field%d_%d":{"type":"array","items":{"type":"string","description":"the %d. of many"}}`, i, n, n)
		}
		list = append(list, b.String()+"}}")
	}
	return list
}

// joined writes the i-th of n elements of a list, for all of them.
func joined(n int, element func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	return b.String()
}

func growChat(turns, schema, salt int) string {
	tools := schemas(schema)
	return `{"model":"gemini-2.5-pro","messages":[{"role":"user","content":"go"},` + joined(turns, func(i int) string {
		return fmt.Sprintf(`{"role":"assistant","content":"step %[1]d","tool_calls":[{"id":"c%[3]d_%[1]d","type":"function","function":{"name":"tool%[2]d","arguments":"{\"path\":\"%[1]d\"}"}}]},`+
			`{"role":"tool","tool_call_id":"c%[3]d_%[1]d","content":"result %[1]d"}`, i, i%len(tools), salt)
	}) + `],"tools":[` + joined(len(tools), func(i int) string {
		return fmt.Sprintf(`{"type":"function","function":{"name":"tool%d","parameters":%s}}`, i, tools[i])
	}) + `]}`
}

func growResponses(turns, schema, salt int) string {
	tools := schemas(schema)
	return `{"model":"gemini-2.5-pro","store":false,"input":[{"role":"user","content":"go"},` + joined(turns, func(i int) string {
		return fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"step %[1]d"}]},`+
			`{"type":"function_call","call_id":"c%[3]d_%[1]d","name":"tool%[2]d","arguments":"{\"path\":\"%[1]d\"}"},`+
			`{"type":"function_call_output","call_id":"c%[3]d_%[1]d","output":"result %[1]d"}`, i, i%len(tools), salt)
	}) + `],"tools":[` + joined(len(tools), func(i int) string {
		return fmt.Sprintf(`{"type":"function","name":"tool%d","parameters":%s}`, i, tools[i])
	}) + `]}`
}

func growAnthropic(turns, schema, salt int) string {
	tools := schemas(schema)
	return `{"model":"gemini-2.5-pro","max_tokens":100,"messages":[{"role":"user","content":"go"},` + joined(turns, func(i int) string {
		return fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"step %[1]d"},{"type":"tool_use","id":"c%[3]d_%[1]d","name":"tool%[2]d","input":{"path":"%[1]d"}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%[3]d_%[1]d","content":"result %[1]d"}]}`, i, i%len(tools), salt)
	}) + `],"tools":[` + joined(len(tools), func(i int) string {
		return fmt.Sprintf(`{"name":"tool%d","input_schema":%s}`, i, tools[i])
	}) + `]}`
}

func growGemini(turns, schema, salt int) string {
	tools := schemas(schema)
	return `{"contents":[{"role":"user","parts":[{"text":"go"}]},` + joined(turns, func(i int) string {
		return fmt.Sprintf(`{"role":"model","parts":[{"text":"step %[1]d"},{"functionCall":{"id":"c%[3]d_%[1]d","name":"tool%[2]d","args":{"path":"%[1]d"}}}]},`+
			`{"role":"user","parts":[{"functionResponse":{"id":"c%[3]d_%[1]d","name":"tool%[2]d","response":{"output":"result %[1]d"}}}]}`, i, i%len(tools), salt)
	}) + `],"tools":[{"functionDeclarations":[` + joined(len(tools), func(i int) string {
		return fmt.Sprintf(`{"name":"tool%d","parametersJsonSchema":%s}`, i, tools[i])
	}) + `]}]}`
}

// A large request passes the provider's own rules after translation, in every dialect and for a
// model of either kind.
func TestLargeRequestsBreakNoRule(t *testing.T) {
	turns, schema := 1000, 200<<10
	if perigeetest.Raced || testing.Short() {
		turns, schema = 100, 20<<10
	}
	provider, url := daemontest.StartSimulator(t, simulator.Options{})
	g := daemontest.Start(t, daemontest.OneUpstream(url), nil)
	for _, dialect := range slices.Sorted(maps.Keys(growings)) {
		grow := growings[dialect]
		for _, model := range []string{"gemini-2.5-pro", "gemini-3-flash", "claude-sonnet-4-6"} {
			t.Run(dialect+"/"+model, func(t *testing.T) {
				before := len(provider.Calls())
				c := capture{Path: grow.path, Headers: map[string]string{"content-type": "application/json"}, Body: json.RawMessage(grow.body(turns, schema, 0))}
				status, answer := c.send(t, g, model)
				if status != http.StatusOK {
					t.Errorf("status %d: %s", status, clipped(answer))
				}
				calls := provider.Calls()[before:]
				if len(calls) == 0 {
					t.Error("the provider was not asked")
				}
				for _, call := range calls {
					if call.Rule != "" && !strings.Contains(call.Rule, ".signature_") {
						t.Errorf("the provider objects: %s", call.Rule)
					}
				}
			})
		}
	}
}

// What a request costs grows with its length and no faster: a history of thousands of turns, and
// tools with ten megabytes of schemas. Memory is counted, because time on a shared machine says
// little.
func TestCostGrowsWithLength(t *testing.T) {
	perigeetest.Slow(t) // small requests cost less than the buffers that are kept from one to the next
	if perigeetest.Raced {
		t.Skip("the race detector's own memory would be counted")
	}
	var received atomic.Int64 // of the last request
	provider := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Store(n)
		_, _ = io.WriteString(w, daemontest.LastEvent)
	}))
	g := daemontest.Start(t, daemontest.OneUpstream(provider), nil)
	salt := 0
	for _, dialect := range slices.Sorted(maps.Keys(growings)) {
		grow := growings[dialect]
		for name, size := range map[string]func(times int) (turns, schema int){
			"turns":   func(times int) (int, int) { return 1000 * times, 1000 },
			"schemas": func(times int) (int, int) { return 10, times * 10 << 20 / 4 },
		} {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				cost := func(times int) (bytes, objects uint64, sent int) {
					salt++
					turns, schema := size(times)
					body := grow.body(turns, schema, salt)
					var before, after runtime.MemStats
					runtime.GC() // buffers that are kept for the next request are given up at the second collection
					runtime.GC()
					runtime.ReadMemStats(&before)
					if status := post(t, g, grow.path, body); status != http.StatusOK {
						t.Errorf("status %d", status)
					}
					runtime.ReadMemStats(&after)
					if got := received.Swap(0); got < int64(len(body))/2 {
						t.Errorf("of %d bytes the provider got %d", len(body), got)
					}
					return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs, len(body)
				}
				cost(4) // what is made once is made now
				bytes1, objects1, sent1 := cost(1)
				bytes4, objects4, sent4 := cost(4)
				for range 2 { // buffers are kept or not, and traces of the request before may be written meanwhile
					bytes, objects, _ := cost(1)
					bytes1, objects1 = max(bytes1, bytes), max(objects1, objects)
					bytes, objects, _ = cost(4)
					bytes4, objects4 = min(bytes4, bytes), min(objects4, objects)
				}
				t.Logf("%d bytes cost %d in %d pieces, %d bytes cost %d in %d pieces", sent1, bytes1, objects1, sent4, bytes4, objects4)
				// Tables double when they are full, so bytes come in steps; what grows with the
				// square costs sixteen times as much.
				bytes1, objects1 = max(bytes1, 2*uint64(sent1)), max(objects1, 500)
				if bytes4 > 8*bytes1 || objects4 > 8*objects1 { // four times is linear, sixteen quadratic
					t.Errorf("a request of %d times the length costs %.1f times the memory in %.1f times the pieces", sent4/sent1,
						float64(bytes4)/float64(bytes1), float64(objects4)/float64(objects1))
				}
			})
		}
	}
}

// post sends a body and reads past the answer, at no cost of its own.
func post(t *testing.T, g *daemontest.Gateway, path, body string) int {
	t.Helper()
	resp := daemontest.PostJSON(t, g, path, body)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}
