package ollama

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// told is an answer as events report it, on one line.
func told(lines ...string) string {
	var d Decoder
	var events []perigee.Event
	var failure error
	for _, line := range lines {
		if events, failure = d.Decode(events, []byte(line)); failure != nil {
			break
		}
	}
	var out []string
	for _, ev := range events {
		switch ev.Kind {
		case perigee.EventStart:
			out = append(out, "start:"+ev.Model)
		case perigee.EventThinking:
			out = append(out, "thinking:"+ev.Text)
		case perigee.EventText:
			out = append(out, "text:"+ev.Text)
		case perigee.EventCall:
			out = append(out, "call:"+ev.Call.ID+":"+ev.Call.Name+string(ev.Call.Args))
		case perigee.EventLogprobs:
			out = append(out, fmt.Sprint("logprobs:", *ev.Logprobs))
		case perigee.EventUsage:
			out = append(out, fmt.Sprintf("usage:%d+%d", ev.Usage.Input, ev.Usage.Output))
		case perigee.EventFinish:
			out = append(out, fmt.Sprintf("finish:%d:%s", ev.Finish.Kind, ev.Finish.Reason))
		default:
			out = append(out, fmt.Sprint("kind:", ev.Kind))
		}
	}
	switch {
	case failure != nil:
		out = append(out, "error:"+string(perigee.AsError(failure).Class)+":"+failure.Error())
	case !d.Finished():
		out = append(out, "cut")
	}
	return strings.Join(out, " ")
}

func TestDecoder(t *testing.T) {
	const done = `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":5,"total_duration":9}`
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"streamed": {[]string{
			`{"model":"m","created_at":"2026-11-19T08:00:00Z","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
			`{"model":"m","message":{"role":"assistant","content":"a"},"done":false}`, `{"model":"m","message":{"role":"assistant","content":"b"},"done":false}`, done},
			"start:m thinking:hm text:a text:b usage:11+5 finish:0:stop"},
		"whole": {[]string{`{"model":"m","message":{"role":"assistant","content":"a","thinking":"hm","tool_calls":[` +
			`{"id":"call_1","function":{"index":0,"name":"f","arguments":{"b":1,"a":[2]}}},{"function":{"name":"g","arguments":{}}}]},` +
			`"done":true,"done_reason":"length","eval_count":5}`},
			`start:m thinking:hm text:a call:call_1:f{"b":1,"a":[2]} call::g{} usage:0+5 finish:1:length`},
		"calls without arguments": {[]string{`{"message":{"tool_calls":[{"function":{"name":"f","arguments":null}},{"function":{"name":"g"}}]},"done":true}`}, "start: call::f{} call::g{} finish:0:"},
		"logprobs": {[]string{`{"model":"m","message":{"content":"a"},"logprobs":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"b","logprob":-1}]}],"done":true}`},
			"start:m text:a logprobs:{[{a -0.5}] [[{b -1}]]} finish:0:"},
		"no counts":                {[]string{`{"model":"m","message":{"content":"a"},"done":true,"done_reason":"unload"}`}, "start:m text:a finish:0:unload"},
		"counts below zero":        {[]string{`{"model":"m","message":{"content":"a"},"done":true,"prompt_eval_count":-7,"eval_count":5}`}, "start:m text:a usage:0+5 finish:0:"},
		"done twice":               {[]string{done, done}, "start:m usage:11+5 finish:0:stop"},
		"cut":                      {[]string{`{"model":"m","message":{"content":"a"},"done":false}`}, "start:m text:a cut"},
		"cut inside a line":        {[]string{`{"model":"m","message":{"content":"a"},"done":false}`, `{"model":"m","mess`}, "start:m text:a cut"},
		"nothing":                  {nil, "cut"},
		"error at once":            {[]string{`{"error":"model runner has unexpectedly stopped"}`}, "error:unavailable:model runner has unexpectedly stopped"},
		"error later":              {[]string{`{"model":"m","message":{"content":"a"},"done":false}`, `{"error":"out of memory"}`}, "start:m text:a error:unavailable:out of memory"},
		"an error that is null":    {[]string{`{"model":"m","error":null,"message":{"content":"a"},"done":true}`}, "start:m text:a finish:0:"},
		"not JSON":                 {[]string{`data: {}`}, `error:unavailable:the provider sent something that is not JSON: line 1, column 1: found 'd' where a value should be`},
		"not an object":            {[]string{`[]`}, "error:unavailable:the provider sent an array where an answer should be"},
		"a text that is a number":  {[]string{`{"message":{"content":1}}`}, "error:unavailable:the provider sent an answer of unknown shape: "},
		"calls that are no object": {[]string{`{"message":{"tool_calls":[1]}}`}, "error:unavailable:the provider sent an answer of unknown shape: "},
	} {
		if got := told(c.lines...); got != c.want && (!strings.HasSuffix(c.want, ": ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		class   perigee.Class
		message string
		long    *providererr.TooLong
	}{
		{404, `{"error":"model 'x' not found"}`, perigee.ClassNotFound, "model 'x' not found", nil},
		{400, `{"error":"registry.ollama.ai/library/gemma:2b does not support tools"}`, perigee.ClassInvalid, "registry.ollama.ai/library/gemma:2b does not support tools", nil},
		{401, `{"error":"unauthorized","signin_url":"https://ollama.com/connect?key=k"}`, perigee.ClassForbidden,
			"the model runs in Ollama's cloud, and the server is not signed in: unauthorized", nil},
		{401, `{"error":"unauthorized"}`, perigee.ClassUnauthenticated, "unauthorized", nil},
		{429, `{"error":"too many requests"}`, perigee.ClassRateLimited, "too many requests", nil},
		{503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, perigee.ClassCapacity,
			"server busy, please try again.  maximum pending requests exceeded", nil},
		{501, `{"error":"this model does not support embeddings"}`, perigee.ClassInvalid, "this model does not support embeddings", nil},
		{500, `{"error":"model requires more system memory (5.6 GiB) than is available (3.2 GiB)"}`, perigee.ClassUnavailable,
			"model requires more system memory (5.6 GiB) than is available (3.2 GiB)", nil},
		{502, "<html>bad gateway</html>", perigee.ClassUnavailable, "the server answered with status 502 and did not explain it", nil},
		{0, `{"error":""}`, perigee.ClassUnavailable, "the server reported an error inside its answer and did not explain it", nil},
		{400, `{"error":"the input length exceeds the context length"}`, perigee.ClassInvalid, "the input length exceeds the context length", &providererr.TooLong{}},
		{400, `{"error":"prompt too long; exceeded max context length by 12 tokens"}`, perigee.ClassInvalid,
			"prompt too long; exceeded max context length by 12 tokens", &providererr.TooLong{}},
		{500, `{"error":"the input length exceeds the context length"}`, perigee.ClassInvalid, "the input length exceeds the context length", &providererr.TooLong{}},
		{400, `{"error":"{\"error\":{\"code\":400,\"message\":\"request (2622 tokens) exceeds the available context size (512 tokens), try increasing it\",` +
			`\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":2622,\"n_ctx\":512}}"}`, perigee.ClassInvalid,
			"the request (2622 tokens) exceeds the available context size (512 tokens)", &providererr.TooLong{Tokens: 2622, Limit: 512}},
		{500, `{"error":"{\"error\":{\"code\":500,\"message\":\"no kernel\"}}"}`, perigee.ClassUnavailable, "no kernel", nil},
	} {
		e := DecodeError(c.status, []byte(c.body))
		if e.Class != c.class || e.Message != c.message {
			t.Errorf("%d %s: got %s %q", c.status, c.body, e.Class, e.Message)
		}
		if long := providererr.AsTooLong(e); (long == nil) != (c.long == nil) || long != nil && *long != *c.long {
			t.Errorf("%d %s: too long is %v, want %v", c.status, c.body, long, c.long)
		}
		if strings.Contains(e.Error(), "key=k") {
			t.Errorf("the address at which to sign in is shown: %v", e)
		}
	}
	if e := CheckAnswer([]byte(`{"error":"no"}`)); e == nil || CheckAnswer([]byte(`{"models":[]}`)) != nil || CheckAnswer([]byte(`{`)) == nil {
		t.Error("CheckAnswer accepts errors")
	}
}

func TestModels(t *testing.T) {
	list, err := DecodeTags([]byte(`{"models":[
		{"name":"qwen3:8b","model":"qwen3:8b","size":1,"digest":"d","details":{"family":"qwen3","context_length":40960},"capabilities":["completion","tools","thinking"]},
		{"name":"old:latest","details":{"family":"llama","parent_model":""}},{"size":1}]}`))
	if err != nil || len(list) != 2 || list[0].Name != "qwen3:8b" || list[0].Context != 40960 || list[1].Name != "old:latest" || list[1].Capabilities != nil {
		t.Errorf("got %+v, %v", list, err)
	}
	m := list[0].Model(32768)
	if m.ID != "qwen3:8b" || m.Context != 32768 || !*m.Tools || *m.Vision || !m.Thinking {
		t.Errorf("got %+v", m)
	}
	if m := list[1].Model(32768); m.Context != 0 || m.Tools != nil || m.Vision != nil || m.Thinking {
		t.Errorf("got %+v", m)
	}
	d, err := DecodeShow([]byte(`{"parameters":"stop x","model_info":{"general.architecture":"gemma3","gemma3.context_length":131072,"gemma3.vision.image_size":896},` +
		`"capabilities":["completion","vision"],"details":{}}`))
	if has, known := d.Has(CapabilityVision); err != nil || d.Context != 131072 || !has || !known {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err = DecodeShow([]byte(`{"model_info":null}`)); err != nil || d.Context != 0 || d.Capabilities != nil {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err = DecodeShow([]byte(`{"model_info":{"x.context_length":-5}}`)); err != nil || d.Context != 0 {
		t.Errorf("got %+v, %v", d, err)
	}
	const loaded = `{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","context_length":8192,"size_vram":5},{"name":"old:7b","size_vram":1}]}`
	for model, want := range map[string]int64{"llama3.2": 8192, "llama3.2:latest": 8192, "llama3.2:1b": 0, "old:7b": 0} {
		if got, err := DecodeLoaded([]byte(loaded), model); got != want || err != nil {
			t.Errorf("%s: got %d, %v", model, got, err)
		}
	}
	if got := string(EncodeShow(`a"b`)); got != `{"model":"a\"b"}` {
		t.Error(got)
	}
	for _, bad := range []string{"", "{", `{"models":1}`, `{"models":[1]}`} {
		if _, err := DecodeTags([]byte(bad)); err == nil {
			t.Errorf("%s is a list", bad)
		}
		if _, err := DecodeLoaded([]byte(bad), "m"); err == nil {
			t.Errorf("%s is a list of loaded models", bad)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	inputs := []perigee.EmbedInput{{Content: perigee.Content{Parts: []perigee.Part{text("a"), text("b")}}, Dimensions: 256, TaskType: "X"}, {Content: perigee.Content{Parts: []perigee.Part{text("c")}}}}
	body, notes, err := EncodeEmbed(Envelope{Model: "m", KeepAlive: "30m0s"}, inputs)
	if want := `{"model":"m","input":["a\nb","c"],"truncate":false,"dimensions":256,"keep_alive":"30m0s"}`; string(body) != want || err != nil || len(notes) != 1 {
		t.Errorf("got %s, %v, %v", body, notes, err)
	}
	if _, _, err := EncodeEmbed(Envelope{}, []perigee.EmbedInput{{Content: perigee.Content{Parts: []perigee.Part{image("AAAA")}}}}); err == nil {
		t.Error("an image is embedded")
	}
	vectors, tokens, err := DecodeEmbeddings([]byte(`{"model":"m","embeddings":[[0.5,-1],[2]],"prompt_eval_count":3}`))
	if err != nil || tokens != 3 || !slices.EqualFunc(vectors, [][]float32{{0.5, -1}, {2}}, slices.Equal) {
		t.Errorf("got %v, %d, %v", vectors, tokens, err)
	}
	if _, _, err := DecodeEmbeddings([]byte(`{"embeddings":["a"]}`)); err == nil {
		t.Error("a text is a vector")
	}
}
