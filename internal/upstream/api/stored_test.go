package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/lib/rawjson"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// newResponsesRig returns a rig at the simulator, which has OpenAI's APIs. Each request of the
// provider and its answer are sent to the channel.
func newResponsesRig(t *testing.T) (*relayRig, chan [2]string) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{Profile: "openai"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	seen := make(chan [2]string, 8)
	provider := newOpenAI(config.Upstream{Profile: "openai", API: "auto"})
	return newRelayRig(t, provider, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(asked))
		r.URL.Path = "/v1" + r.URL.Path
		kept := &copier{ResponseWriter: w}
		sim.ServeHTTP(kept, r)
		seen <- [2]string{string(asked), kept.body.String()}
	}), seen
}

// The Responses requests of real clients reach OpenAI byte for byte, with its answers or errors on
// the way back. The name of the model is all that differs, because OpenAI does not have theirs.
func TestResponsesOfClientsAreForwarded(t *testing.T) {
	rig, seen := newResponsesRig(t)
	count, finished, streamed := 0, 0, 0
	for name, c := range captures(t) {
		if c.Path != "/v1/responses" {
			continue
		}
		start, end := memberOf(t, c.Body, "model")
		body := string(c.Body[:start]) + `"gpt-5"` + string(c.Body[end:])
		aliased := string(c.Body[:start]) + `"p/gpt-5"` + string(c.Body[end:])
		resp, got := rig.ask(t, c.Path, aliased, nil)
		sent := await.Receive(t, seen, "the answer of the provider")
		if sent[0] != body || sent[1] != got || resp.Header.Get("X-Perigee-Notes") != "" {
			t.Errorf("%s: %d, notes %s\nthe provider got  %.300q\nfor               %.300q\nthe client got    %.300q\nof                %.300q", name,
				resp.StatusCode, resp.Header.Get("X-Perigee-Notes"), sent[0], body, got, sent[1])
		}
		count++
		switch {
		case strings.Contains(got, "event: response.completed"):
			finished, streamed = finished+1, streamed+1
		case resp.StatusCode == http.StatusOK:
			finished++
		}
	}
	if count < 5 || finished == 0 || streamed == 0 {
		t.Errorf("%d captures, %d finished, %d of them streamed", count, finished, streamed)
	}
	t.Logf("%d captures, %d finished, %d of them streamed", count, finished, streamed)
}

// Reasoning that another provider has made is cut out with a note, and reasoning of unknown origin
// passes.
func TestForeignReasoningOfResponses(t *testing.T) {
	const foreign, unknown = `{"type":"reasoning","id":"rs_1","encrypted_content":"F","summary":[]}`, `{"type":"reasoning","id":"rs_2","encrypted_content":"G","summary":[]}`
	asked, err := responses.DecodeRequest(perigee.Origin{Body: []byte(`{ "model":"m", "input":[ ` + foreign + `, ` + unknown + ` , "x" ] }`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ownResponse(asked.WithRecall(recalls{foreign: map[string]bool{"F": true}}), new(adapt.Server))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(m.body[0]), `{ "model":"m", "input":[ `+unknown+` , "x" ] }`; got != want || !slices.Equal(m.notes, []perigee.Note{perigee.OtherReasoning}) {
		t.Errorf("%v, %s, want %s", m.notes, got, want)
	}
}

// memberOf returns where a member of a body has its value.
func memberOf(t *testing.T, body []byte, name string) (start, end int) {
	t.Helper()
	start, end, ok := rawjson.Find(body, name)
	if !ok {
		t.Fatalf("no %s in %.100s", name, body)
	}
	return start, end
}

// A tool loop continues the response that the provider stores, which can be read and deleted
// afterwards.
func TestToolLoopOverStoredResponses(t *testing.T) {
	for _, stream := range []bool{false, true} {
		rig, seen := newResponsesRig(t)
		const tools = `"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}]`
		_, first := rig.ask(t, "/v1/responses", fmt.Sprintf(`{"model":"gpt-5","store":true,"stream":%v,%s,"input":"[[think: hm]][[call: f {\"a\":1}]][[then]][[text: Done.]]"}`, stream, tools), nil)
		await.Receive(t, seen, "the answer of the provider")
		id, call := lastResponse(t, first)
		next := fmt.Sprintf(`{ "model":"gpt-5", "previous_response_id":%q, "stream":%v, %s, "input":[{"type":"function_call_output","call_id":%q,"output":"42"}] }`, id, stream, tools, call)
		_, second := rig.ask(t, "/v1/responses", next, nil)
		if sent := await.Receive(t, seen, "the answer of the provider"); sent[0] != next || sent[1] != second || !strings.Contains(second, "Done.") {
			t.Fatalf("stream %v: the provider got %s, the client got %s", stream, sent[0], second)
		}
		id, _ = lastResponse(t, second)
		for _, c := range []struct{ method, path, want string }{
			{"GET", id, `"status":"completed"`}, {"DELETE", id, `"deleted":true`},
		} {
			got := rig.do(t, c.method, "/v1/responses/"+c.path)
			if sent := await.Receive(t, seen, "the answer of the provider"); sent[1] != got || !strings.Contains(strings.ReplaceAll(got, " ", ""), c.want) {
				t.Errorf("stream %v: %s %s: %s of %s", stream, c.method, c.path, got, sent[1])
			}
		}
		if got := rig.do(t, "GET", "/v1/responses/"+id); !strings.Contains(got, `"code":"not_found"`) || len(seen) > 0 {
			t.Errorf("stream %v: after DELETE: %s", stream, got)
		}
	}
}

// do makes a request without a body and returns the body of its answer.
func (r *relayRig) do(t *testing.T, method, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(got)
}

// lastResponse returns the id of a response, or of the last one of a stream, and the id of its call.
func lastResponse(t *testing.T, answer string) (id, call string) {
	t.Helper()
	type object struct {
		ID     string
		Output []struct {
			CallID string `json:"call_id"`
		}
	}
	var o struct {
		object
		Response *object
	}
	if at := strings.LastIndex(answer, "data: {"); at >= 0 {
		answer = answer[at+len("data: "):]
	}
	if err := json.NewDecoder(strings.NewReader(answer)).Decode(&o); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	r := &o.object
	if o.Response != nil {
		r = o.Response
	}
	for _, item := range r.Output {
		call += item.CallID
	}
	return r.ID, call
}
