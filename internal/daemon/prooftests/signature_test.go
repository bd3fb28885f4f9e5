package prooftests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
)

// A signature that a client lost is given back even when perigee was started anew in between.
func TestSignaturesOutlastARestart(t *testing.T) {
	const signature = "EjQKMgExampleSignatureOfACallThatIsLongEnoughToBeReal0123456789ABCDEF"
	var mu sync.Mutex
	var asked []string
	provider := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		asked = append(asked, string(body))
		mu.Unlock()
		_, _ = fmt.Fprint(w, `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"read"},"thoughtSignature":"`+signature+`"}],"role":"model"},"finishReason":"STOP"}]}`)
	}))
	dir := daemontest.DataDir(t)
	for i, body := range []string{
		`{"model":"gemini-3-flash","messages":[{"role":"user","content":"Read"}]}`,
		`{"model":"gemini-3-flash","messages":[{"role":"user","content":"Read"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"text"}]}`,
	} {
		g, err := daemontest.Launch(t.Context(), daemontest.Sources(daemontest.OneUpstream(provider), dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		daemontest.Send(t, g, "/v1/chat/completions", body)
		if _, err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		sent := asked[len(asked)-1]
		if got := strings.Contains(sent, signature); got != (i == 1) || len(asked) != i+1 {
			t.Errorf("request %d of %d: the signature is there: %v\n%s", i+1, len(asked), got, sent)
		}
		mu.Unlock()
	}
}

// The strict simulator accepts what an agent without any idea of signatures sends, turn after turn,
// from old models to new ones and with tools whose names it would refuse.
func TestAnAgentLoopAgainstTheStrictSimulator(t *testing.T) {
	g := daemontest.Start(t, "", func(o *daemon.Options) { o.Simulate = true })
	for _, model := range []string{"gemini-2.5-pro", "gemini-2.5-flash-lite", "gemini-3-flash", "gemini-3-pro-preview", "gemini-3-flash(high)", "gemini-2.5-flash-low"} {
		t.Run(model, func(t *testing.T) {
			messages := []any{map[string]any{"role": "user", "content": `[[call: _1st_read {"path":"a"}]][[call: write {"path":"b"}]][[then]][[call: write {"path":"c"}]][[then]][[text: all done]]`}}
			for range 4 {
				body, err := json.Marshal(map[string]any{
					"model": model, "messages": messages, "max_tokens": 200000, "reasoning_effort": "medium",
					"tools": []any{tool("1st/read"), tool("write"), tool("write")},
				})
				if err != nil {
					t.Fatal(err)
				}
				answer := daemontest.Send(t, g, "/v1/chat/completions", string(body))
				message := answer["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
				calls, _ := message["tool_calls"].([]any)
				if len(calls) == 0 {
					if text, _ := message["content"].(string); !strings.Contains(text, "all done") {
						t.Errorf("ended with %q", text)
					}
					return
				}
				for _, c := range calls {
					delete(c.(map[string]any), "extra_content") // most clients lose it
				}
				messages = append(messages, map[string]any{"role": "assistant", "content": message["content"], "tool_calls": calls})
				for _, c := range calls {
					if name := c.(map[string]any)["function"].(map[string]any)["name"]; name != "1st/read" && name != "write" {
						t.Errorf("the client is asked to call %v", name)
					}
					messages = append(messages, map[string]any{"role": "tool", "tool_call_id": c.(map[string]any)["id"], "content": "ok"})
				}
			}
			t.Error("the loop does not end")
		})
	}
}

func tool(name string) map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}}}}
}
