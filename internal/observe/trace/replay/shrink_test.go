package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee"
)

// containing fails for requests with all of the words in them.
func containing(words ...string) func(context.Context, []byte) (bool, error) {
	return func(_ context.Context, request []byte) (bool, error) {
		for _, word := range words {
			if !bytes.Contains(request, []byte(word)) {
				return false, nil
			}
		}
		return true, nil
	}
}

func TestMinimize(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		words   []string // that the failure needs
		want    string
	}{
		"a tool among several": {
			`{"model": "m", "temperature": 1, "tools": [{"name": "a"}, {"name": "bad"}, {"name": "c"}], "messages": [{"role": "user", "content": "hello"}]}`,
			[]string{"bad"}, `{"model":"m","tools":[{"name":"bad"}],"messages":[{"role":"user","content":"hello"}]}`},
		"nothing of a conversation but its last message": {
			`{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}], "logprobs": true}`,
			[]string{"logprobs"}, `{"messages":[{"role":"user","content":"three"}],"logprobs":true}`},
		"a message that is not the last": {
			`{"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "odd"}, {"role": "user", "content": "three"}]}`,
			[]string{"odd"}, `{"messages":[{"role":"assistant","content":"odd"}]}`},
		"a call goes with its result": {
			`{"messages": [{"role": "user", "content": "go"},
				{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
				{"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "tool", "tool_call_id": "c2", "content": "cause"}]}`,
			[]string{"cause", "tool_calls"}, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c2","content":"cause"}]}`},
		"a property goes with its name in required": {
			`{"tools": [{"input_schema": {"type": "object", "properties": {"name": {"type": "string"}, "bad": {"$ref": "#"}}, "required": ["name", "bad"]}}]}`,
			[]string{"$ref"}, `{"tools":[{"input_schema":{"properties":{"bad":{"$ref":"#"}}}}]}`},
		"the choice of a tool goes with the tool": {
			`{"tools": [{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b", "strict": 7}}], "tool_choice": {"type": "function", "function": {"name": "a"}}}`,
			[]string{"strict"}, `{"tools":[{"type":"function","function":{"name":"b","strict":7}}]}`},
		"texts": {
			`{"system": "` + strings.Repeat("long ", 1000) + `", "messages": [{"role": "user", "content": "` + strings.Repeat("a", 500) + "NEEDLE" + strings.Repeat("b", 500) + `"}]}`,
			[]string{"NEEDLE"}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := minimize(t.Context(), []byte(test.request), searchOptions{fails: containing(test.words...)})
			if err != nil || !result.Whole {
				t.Fatalf("%+v, %v", result, err)
			}
			if test.want != "" && result.Request != test.want {
				t.Errorf("got  %s\nwant %s", result.Request, test.want)
			}
			if len(result.Request) > 300 {
				t.Errorf("%d bytes are left: %s", len(result.Request), result.Request)
			}
		})
	}
}

// In Gemini's dialect calls and results have no ids: they belong together by their places.
func TestGeminiCallsAndResultsGoTogether(t *testing.T) {
	request := `{"contents": [{"role": "user", "parts": [{"text": "go"}]},
		{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": 1}}}, {"functionCall": {"name": "g", "args": {}}}]},
		{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}, {"functionResponse": {"name": "g", "response": {"bad": true}}}]}]}`
	tested := 0
	result, err := minimize(t.Context(), []byte(request), searchOptions{fails: func(_ context.Context, r []byte) (bool, error) {
		tested++
		if calls, results := bytes.Count(r, []byte("functionCall")), bytes.Count(r, []byte("functionResponse")); calls != results {
			t.Errorf("%d calls and %d results: %s", calls, results, r)
		}
		return bytes.Contains(r, []byte("bad")), nil
	}})
	if err != nil || tested != result.Calls {
		t.Errorf("%d calls of %d, %v", result.Calls, tested, err)
	}
	const want = `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"g","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"g","response":{"bad":true}}}]}]}`
	if result.Request != want {
		t.Errorf("got %s", result.Request)
	}
}

func TestSearchIsBounded(t *testing.T) {
	var tools []string
	for i := range 300 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d"}`, i))
	}
	request := []byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)
	// Every second tool is needed, so that every part of the list has to be tried.
	fails := func(_ context.Context, r []byte) (bool, error) {
		for i := 0; i < 300; i += 2 {
			if !bytes.Contains(r, fmt.Appendf(nil, `"tool_%d"`, i)) {
				return false, nil
			}
		}
		return true, nil
	}
	last := len(request)
	result, err := minimize(t.Context(), request, searchOptions{fails: fails, progress: func(calls, size int) {
		if size > last || calls > maxCalls {
			t.Errorf("call %d: %d bytes after %d", calls, size, last)
		}
		last = size
	}})
	if err != nil || result.Whole || result.Calls != maxCalls || len(result.Request) != last {
		t.Errorf("%d calls, whole %v, %d bytes, %v", result.Calls, result.Whole, len(result.Request), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result, err = minimize(ctx, request, searchOptions{fails: func(_ context.Context, r []byte) (bool, error) {
		if len(r) < len(request) {
			cancel()
			return false, ctx.Err()
		}
		return true, nil
	}})
	if err != nil || result.Whole || result.Request != string(request) {
		t.Errorf("after the end of its time: %+v, %v", result.Calls, err)
	}
}

func TestSearchThatCannotGoOn(t *testing.T) {
	request := []byte(`{"a": 1, "b": 2, "c": 3}`)
	if _, err := minimize(t.Context(), request, searchOptions{fails: containing("d")}); !errors.Is(err, errDifferent) {
		t.Errorf("a request that does not fail: %v", err)
	}
	full := errors.New("the quota is used up")
	result, err := minimize(t.Context(), request, searchOptions{fails: func(_ context.Context, r []byte) (bool, error) {
		if !bytes.Contains(r, []byte("a")) {
			return false, full
		}
		return true, nil
	}})
	if !errors.Is(err, full) || len(result.Request) == 0 {
		t.Errorf("%s, %v", result.Request, err)
	}
	if _, err := minimize(t.Context(), []byte(`{"a": `), searchOptions{}); perigee.AsError(err).Class != perigee.ClassInvalid {
		t.Errorf("no JSON: %v", err)
	}
}

// value generates JSON with the members that the rules are about.
func value(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z<é"\\ ]{0,40}`), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(0, 999), func(n int) any { return n }),
		rapid.Just[any](nil), rapid.Just[any](true))
	if depth == 0 {
		return scalar
	}
	names := rapid.SampledFrom([]string{"model", "messages", "role", "content", "tools", "tool_calls", "id", "tool_call_id", "type",
		"function", "name", "parameters", "properties", "required", "contents", "parts", "functionCall", "functionResponse", "input",
		"tool_choice", "x"})
	inner := value(depth - 1)
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(list []any) any { return list }),
		rapid.Map(rapid.MapOfN(names, inner, 0, 6), func(m map[string]any) any { return m }))
}

// Whatever the request and the failure are: the result fails, is not larger, and is found within
// the calls that are allowed.
func TestMinimizeHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, err := json.MarshalIndent(value(4).Draw(t, "request"), "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		salt, odds := rapid.Uint32().Draw(t, "salt"), rapid.Uint32Range(1, 4).Draw(t, "odds")
		limit := rapid.IntRange(1, 80).Draw(t, "limit")
		// The failure follows no rule but that equal requests fail equally.
		fails := func(r []byte) bool {
			h := fnv.New32a()
			fmt.Fprint(h, salt)
			h.Write(r)
			return bytes.Equal(r, request) || h.Sum32()%odds == 0
		}
		calls := 0
		result, err := minimize(context.Background(), request, searchOptions{maxCalls: limit, fails: func(_ context.Context, r []byte) (bool, error) {
			calls++
			if !json.Valid(r) || len(r) > len(request) {
				t.Fatalf("tried %s", r)
			}
			return fails(r), nil
		}})
		switch {
		case err != nil:
			t.Fatal(err)
		case !fails([]byte(result.Request)):
			t.Fatalf("the result does not fail: %s", result.Request)
		case len(result.Request) > len(request):
			t.Fatalf("%d bytes became %d", len(request), len(result.Request))
		case calls > limit || calls != result.Calls:
			t.Fatalf("%d calls, counted %d, allowed %d", calls, result.Calls, limit)
		}
	})
}

func TestSameFailure(t *testing.T) {
	was := failure{Status: 400, Class: perigee.ClassInvalid, Provider: true,
		Message: `tools[17].parameters: unknown name "$ref" at 'tools[0].function_declarations[17].parameters': cannot find field` + "\nmore"}
	same := func(change func(*failure)) bool {
		is := was
		change(&is)
		return was.same(is)
	}
	if !same(func(f *failure) {
		f.Message = `tools[0].parameters: unknown name "$ref" at 'tools[0].function_declarations[0].parameters': cannot find field`
	}) {
		t.Errorf("numbers, quoted paths and further lines count: %s", mask(was.Message))
	}
	for name, change := range map[string]func(*failure){
		"status":  func(f *failure) { f.Status = 500 },
		"class":   func(f *failure) { f.Class = perigee.ClassNotFound },
		"party":   func(f *failure) { f.Provider = false },
		"message": func(f *failure) { f.Message = strings.Replace(f.Message, "$ref", "$defs", 1) },
	} {
		if same(change) {
			t.Errorf("%s does not count", name)
		}
	}
}
