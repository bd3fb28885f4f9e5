package anthropic

import (
	"strings"
	"testing"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// A memory knows that another provider made the signature G and the call g, and has the thinking of
// the call c.
type memory struct{}

func (memory) Foreign([]string) map[string]bool { return map[string]bool{"G": true} }

func (memory) Messages(list []perigee.Recalled) {
	for i := range list {
		list[i].Foreign = list[i].Calls[0] == "g"
		if list[i].Calls[0] == "c" {
			list[i].Known = []perigee.Part{{Thought: true, Text: perigee.Plain("hm"), Signature: "C"}, {Kind: perigee.PartRedacted, Thought: true, Signature: "R"}}
		}
	}
}

func TestRewriteThinkingKeepsAllOtherBytes(t *testing.T) {
	thinking := func(signature string) string {
		return `{"type":"thinking","thinking":"hm","signature":"` + signature + `"}`
	}
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}], "thinking":{"type":"enabled"}}`:                                                      ``,
		`{"messages":[{"role":"assistant","content":[` + thinking("C") + `]}]}`:                                                             ``,
		`{"a": 1, "messages": [ {"content": [` + thinking("G") + `, {"type":"text", "text":"x"}], "role":"assistant" } ] , "b":2}`:          `{"a": 1, "messages": [ {"content": [ {"type":"text", "text":"x"}], "role":"assistant" } ] , "b":2}`,
		`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` + thinking("G") + `]},{"role":"user","content":"b"}]}`: `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
		`{"messages":[{"content":[` + thinking("perigee.1.call.x") + `,` + thinking("C") + `]}]}`:                                           `{"messages":[{"content":[` + thinking("C") + `]}]}`,
		`{"messages":[{"content":[` + thinking("") + `,{"type":"redacted_thinking","data":"G"},{"type":"text","text":"x"}]}]}`:              `{"messages":[{"content":[{"type":"text","text":"x"}]}]}`,
		`{"messages":null}`: ``,
		`{"messages":[1,{"content":[2,{"content":3}]}]}`: ``,
	} {
		edits, change := RewriteThinking(nil, []byte(body), memory{}, false)
		got := rawjson.Splice([]byte(body), edits...)
		if change.Dropped != (want != "") || change.Lost || want == "" && string(got) != body || want != "" && string(got) != want {
			t.Errorf("%s\nbecame %+v %s", body, change, got)
		}
	}
}

// A tool loop whose messages have lost their thinking gets it back if thinking is on, by the request
// or by the model's default. One that another provider began has none.
func TestRewriteThinkingRestoresALoop(t *testing.T) {
	loop := func(mode, calls, rest string) string {
		return `{"messages":[{"role":"user","content":"hi"},` + calls + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}` + rest + `],"thinking":{"type":"` + mode + `"}}`
	}
	unsaid := func(model, calls string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"},` + calls + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}`
	}
	call := func(id, thinking string) string {
		return `{"role":"assistant", "content":[` + thinking + `{"type":"tool_use","id":"` + id + `"}]},`
	}
	const back = `{"type":"thinking","thinking":"hm","signature":"C"},{"type":"redacted_thinking","data":"R"},`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]},`
	for body, want := range map[string]string{
		loop("enabled", call("c", ""), ""):                                                                           loop("enabled", call("c", back), ""),
		loop("adaptive", call("c", ""), ""):                                                                          loop("adaptive", call("c", back), ""),
		loop("adaptive", call("g", "")+result+call("c", ""), ""):                                                     loop("adaptive", call("g", "")+result+call("c", back), ""),
		loop("enabled", call("c", `{"type":"thinking","thinking":"x","signature":"G"},`), ""):                        "dropped " + loop("enabled", call("c", back), ""),
		loop("enabled", call("c", `{"type":"thinking","thinking":"x","signature":"C"},`), ""):                        "",
		loop("disabled", call("c", ""), ""):                                                                          "",
		unsaid("thinks", call("c", "")):                                                                              unsaid("thinks", call("c", back)),
		unsaid("is silent", call("c", "")):                                                                           "",
		loop("enabled", call("c", ""), `,{"role":"user","content":"stop"}`):                                          "",
		loop("enabled", call("unknown", ""), ""):                                                                     "",
		loop("enabled", call("g", ""), ""):                                                                           "lost ",
		loop("enabled", call("g", "")+result+call("c", back), ""):                                                    "lost ",
		loop("enabled", call("c", back)+result+call("g", ""), ""):                                                    "",
		`{"thinking":{"type":"enabled"},"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c"}]}]}`: "",
	} {
		edits, change := RewriteThinking(nil, []byte(body), memory{}, strings.Contains(body, `"model":"thinks"`))
		got := rawjson.Splice([]byte(body), edits...)
		text := string(got)
		if text == body {
			text = ""
		}
		if change.Lost {
			text = "lost " + text
		}
		if change.Dropped {
			text = "dropped " + text
		}
		if text != want {
			t.Errorf("%s\nbecame %s\nwant   %s", body, text, want)
		}
	}
}

// A request that may be forwarded is decoded only if an upstream needs its prompt. Until then it has
// no notes, and members that only Anthropic's servers understand are no error.
func TestForwardedRequestsAreNotDecoded(t *testing.T) {
	body := `{"model":"claude-opus-5","stream":true,"max_tokens":9,"novelty":1,"stop_sequences":["x"],"thinking":{"type":"adaptive","display":"omitted"},"metadata":{"user_id":"s1"},"messages":[{"role":"user","content":"hi"}]}`
	req, answer, err := DecodeRequest(perigee.Origin{Body: []byte(body)})
	if err != nil || req.Model != "claude-opus-5" || !req.Stream || req.Client.Session != "s1" || !req.ReportStopSequence || answer.Thinking != DisplayOmitted || !req.Verbatim(perigee.DialectAnthropic) {
		t.Fatalf("%+v %+v %v", req, answer, err)
	}
	if req.EstimateTokens() == 0 || len(req.Log.Notes()) > 0 {
		t.Errorf("notes before the prompt is needed: %v", req.Log.Notes())
	}
	if _, err := req.Decoded(false); err != nil || len(req.Log.Notes()) != 1 {
		t.Errorf("%v, notes %v", err, req.Log.Notes())
	}
	req, _, err = DecodeRequest(perigee.Origin{Strict: true, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := req.Decoded(false); err == nil || !strings.Contains(err.Error(), "novelty") {
		t.Errorf("a strict request: %v", err)
	}
	for _, refused := range []string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}`,
		`{"model":"m","thread":{"type":"create"},"messages":[{"role":"user","content":"hi"}]}`,
	} {
		req, _, err := DecodeRequest(perigee.Origin{Body: []byte(refused)})
		if err != nil {
			t.Fatalf("%s: %v", refused, err)
		}
		if _, err := req.Prompt(); perigee.AsError(err).Class != perigee.ClassInvalid {
			t.Errorf("%s: %v", refused, err)
		}
	}
	for _, wrong := range []string{`[]`, `{`, `{"model":1}`} {
		if _, _, err := DecodeRequest(perigee.Origin{Body: []byte(wrong)}); perigee.AsError(err).Class != perigee.ClassInvalid {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
