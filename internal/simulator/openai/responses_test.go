package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"perigee/internal/simulator/completion"
)

// responseBody returns a request of one text with more members.
func responseBody(model, rest string) string {
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"model":%q,"input":"hi"%s}`, model, rest)
}

func itemsBody(items, rest string) string {
	return `{"model":"gpt-5","input":[{"role":"user","content":"hi"}` + items + `]` + rest + `}`
}

var (
	testSealer = Sealer{[]byte("k")}
	ownSeal    = testSealer.seal("org", "x")
)

const (
	callItem   = `,{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
	outputItem = `,{"type":"function_call_output","call_id":"c1","output":"42"}`
	notStored  = `,"store":false`
)

func sealedItem(seal string) string {
	return `,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + seal + `"}`
}

// responseCases are requests and the error that each gets; "" means that it is accepted.
var responseCases = []struct{ body, status, want string }{
	{`{"model":"gpt-5"}`, "400", "Missing required parameter: 'input'."},
	{responseBody("gpt-5", ``), "", ""},
	{responseBody("gpt-99", ``), "400", "The requested model 'gpt-99' does not exist."},
	{responseBody("gpt-5", `"messages":[]`), "400", "Unknown parameter: 'messages'."},
	{responseBody("gpt-5", `"max_output_tokens":15`), "400", "Expected a value >= 16, but got 15 instead."},
	{responseBody("gpt-5", `"max_output_tokens":16`), "", ""},
	{responseBody("gpt-5", `"temperature":0.5`), "400", "'temperature' is not supported with this model"},
	{responseBody("gpt-4.1", `"temperature":0.5`), "", ""},
	{responseBody("gpt-4.1", `"reasoning":{"effort":"low"}`), "400", "'reasoning.effort' is not supported with this model"},
	{responseBody("gpt-5", `"reasoning":{"effort":"huge"}`), "400", "Invalid value: 'huge'."},
	{responseBody("gpt-5", `"include":["everything"]`), "400", "Invalid value: 'everything'."},
	{responseBody("gpt-5", `"include":["reasoning.encrypted_content"]`), "", ""},
	{responseBody("gpt-5", `"previous_response_id":"resp_1"`), "400", "Previous response with id 'resp_1' not found."},
	{responseBody("gpt-5", `"previous_response_id":"resp_1","conversation":"conv_1"`), "400", "Mutually exclusive"},
	{responseBody("gpt-5", `"tools":[{"type":"custom"}]`), "400", "Missing required parameter: 'tools[0].name'."},
	{responseBody("gpt-5", `"tools":[{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}}]`), "", ""},
	{responseBody("gpt-5", `"tools":[{"type":"function","function":{"name":"f"}}]`), "400", "Unknown parameter: 'tools[0].function'."},
	{responseBody("gpt-5", `"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]},{"type":"web_search"}]`), "", ""},
	{responseBody("gpt-5", `"tools":[{"type":"magic"}]`), "400", "Invalid value: 'magic'."},
	{responseBody("gpt-5", `"text":{"format":{"type":"json_schema","schema":{"type":"object"}}}`), "400", "Missing required parameter: 'text.format.name'."},
	{responseBody("gpt-5", `"tool_choice":"required"`), "400", "must be specified with 'tools'"},
	{itemsBody(callItem+outputItem, ``), "", ""},
	{itemsBody(callItem, ``), "400", "No tool output found for function call c1."},
	{itemsBody(outputItem, ``), "400", "No tool call found for function call output with call_id c1."},
	{itemsBody(`,{"type":"custom_tool_call","call_id":"c1","name":"p","input":"x"}`+outputItem, ``), "400", "No tool call found for function call output"},
	{itemsBody(`,{"type":"reasoning","id":"rs_1","summary":[]}`+callItem+outputItem, notStored), "404", "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."},
	{itemsBody(`,{"type":"item_reference","id":"msg_1"}`, notStored), "404", "Item with id 'msg_1' not found."},
	{itemsBody(sealedItem(ownSeal)+callItem+outputItem, notStored), "", ""},
	{itemsBody(sealedItem(ownSeal), notStored), "400", "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
	{itemsBody(sealedItem(ownSeal)+`,{"role":"user","content":"x"}`, notStored), "400", "without its required following item"},
	{itemsBody(sealedItem("gAAAAfromanother")+callItem+outputItem, notStored), "400", "The encrypted content gAAAAfro...ther could not be verified."},
	{itemsBody(sealedItem(testSealer.seal("other", "x"))+callItem+outputItem, notStored), "400", "could not be verified"},
	{itemsBody(`,{"type":"reasoning","id":"rs_1","encrypted_content":"`+ownSeal+`"}`+callItem+outputItem, notStored), "400", "Missing required parameter: 'input[1].summary'."},
	{itemsBody(`,{"type":"riddle"}`, ``), "400", "Invalid value: 'riddle'."},
	{itemsBody(`,{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`, ``), "400", "Supported values are: 'output_text' and 'refusal'."},
	{itemsBody(`,{"role":"user","content":[{"type":"text","text":"x"}]}`, ``), "400", "Invalid value: 'text'."},
	{itemsBody(`,{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]}`, ``), "", ""},
	{itemsBody(`,{"role":"user","content":[{"type":"input_image"}]}`, ``), "400", "Missing required parameter: 'input[1].content[0].image_url'."},
	{itemsBody(`,{"role":"user","content":"x","name":"y"}`, ``), "400", "Unknown parameter: 'input[1].name'."},
	{itemsBody(`,{"type":"function_call","id":"call_1","call_id":"c1","name":"f","arguments":"{}"}`, ``), "400", "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'."},
	{itemsBody(strings.ReplaceAll(callItem, `"f"`, `"a.b"`)+outputItem, ``), "400", "Invalid 'input[1].name': string does not match pattern."},
	{itemsBody(strings.ReplaceAll(callItem, "c1", strings.Repeat("c", 65))+outputItem, ``), "400", "Invalid 'input[1].call_id': string too long."},
	{itemsBody(`,7`, ``), "400", "Invalid type for 'input[1]': expected an object, but got an integer"},
}

func responseInput(body string) Input {
	return Input{Profile: ProfileNamed("openai"), Body: []byte(body), Org: "org", Sealer: testSealer, Store: &Store{}}
}

func TestResponseRules(t *testing.T) {
	for _, c := range responseCases {
		t.Run(c.want, func(t *testing.T) {
			_, refused := CheckResponse(responseInput(c.body), false)
			switch {
			case refused == nil && c.want != "":
				t.Errorf("accepted, want %q", c.want)
			case refused == nil:
			case c.want == "" || !strings.Contains(refused.Message, c.want) || fmt.Sprint(refused.Status) != c.status:
				t.Errorf("%d %s: %s, want %q", refused.Status, refused.Rule, refused.Message, c.want)
			case refused.Rule == "":
				t.Error("no rule")
			}
		})
	}
}

// ask lets a model think and call f in answer to a body, and returns the items of the answer.
func ask(t *testing.T, store *Store, body string) (id string, output []json.RawMessage) {
	t.Helper()
	in := responseInput(body)
	in.Store = store
	request, refused := CheckResponse(in, false)
	if refused != nil {
		t.Fatal(refused)
	}
	reply := completion.Reply{Candidates: []completion.Candidate{{Finish: "STOP", Parts: []completion.Part{
		{Thought: true, Text: "hm"}, {Call: &completion.Call{Name: "f", Args: json.RawMessage("{}")}}}}}}
	var answer struct {
		ID     string
		Output []json.RawMessage
	}
	if err := json.Unmarshal(request.Body(&reply), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.ID, answer.Output
}

func callID(t *testing.T, item json.RawMessage) string {
	t.Helper()
	var call struct {
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(item, &call); err != nil {
		t.Fatal(err)
	}
	return call.CallID
}

func TestStoredResponsesCanBeContinued(t *testing.T) {
	store := &Store{}
	id, output := ask(t, store, responseBody("gpt-5", ``))
	result := `{"type":"function_call_output","call_id":"` + callID(t, output[1]) + `","output":"42"}`
	check := func(body string) *Error {
		in := responseInput(body)
		in.Store = store
		_, refused := CheckResponse(in, false)
		return refused
	}
	wants := map[string]string{
		`{"model":"gpt-5","previous_response_id":"` + id + `","input":[` + result + `]}`:                                    "",
		`{"model":"gpt-5","previous_response_id":"` + id + `","input":"again"}`:                                             "No tool output found",
		`{"model":"gpt-5","input":["hi"]}`:                                                                                  "expected an object",
		`{"model":"gpt-5","input":[` + string(output[0]) + `,` + string(output[1]) + `,` + result + `]}`:                    "",
		`{"model":"gpt-5","input":[` + string(output[1]) + `,` + result + `]}`:                                              "was provided without its required 'reasoning' item: 'rs_",
		`{"model":"gpt-5","input":[{"type":"item_reference","id":"` + idOf(t, output[1]) + `"},` + result + `]}`:            "",
		`{"model":"gpt-5","store":false,"input":[` + string(output[0]) + `,` + string(output[1]) + `,` + result + `]}`:      "",
		`{"model":"gpt-5","store":false,"previous_response_id":"resp_other","input":[` + result + `]}`:                      "not found",
		`{"model":"gpt-5","input":[{"role":"user","content":"x"},` + string(output[0]) + `,{"role":"user","content":"x"}]}`: "without its required following item",
	}
	for body, want := range wants {
		refused := check(body)
		if refused == nil && want != "" || refused != nil && (want == "" || !strings.Contains(refused.Message, want)) {
			t.Errorf("%s: %v, want %q", body, refused, want)
		}
	}
	if _, refused := store.Get("another", id); refused == nil {
		t.Error("another organization can read the response")
	}
	if _, refused := store.Delete("org", id); refused != nil {
		t.Error(refused)
	}
	if _, refused := store.Get("org", id); refused == nil {
		t.Error("it is still there")
	}
}

func idOf(t *testing.T, item json.RawMessage) string {
	t.Helper()
	var o struct{ ID string }
	if err := json.Unmarshal(item, &o); err != nil {
		t.Fatal(err)
	}
	return o.ID
}

func TestNothingIsStoredUnlessAsked(t *testing.T) {
	store := &Store{}
	id, _ := ask(t, store, responseBody("gpt-5", `"store":false`))
	if _, refused := store.Get("org", id); refused == nil {
		t.Error("it was stored")
	}
}

func TestStoreIsBounded(t *testing.T) {
	store := &Store{}
	for i := range maxResponses + 5 {
		store.put(fmt.Sprint(i), &stored{org: "org", size: 1})
	}
	if _, refused := store.Get("org", "4"); refused == nil || len(store.byID) != maxResponses {
		t.Errorf("%d responses", len(store.byID))
	}
	for i := range 3 {
		store.put(fmt.Sprint("large", i), &stored{org: "org", size: maxStored / 2})
	}
	if len(store.order) != 2 || store.size != maxStored {
		t.Errorf("%d responses of %d bytes", len(store.order), store.size)
	}
}

// Each event has its place in the sequence, and each item ends as it is in the final response.
func TestEventsOfEveryKindOfItem(t *testing.T) {
	in := responseInput(responseBody("gpt-5", `"stream":true,"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],"tools":[{"type":"custom","name":"patch"},{"type":"function","name":"f"}]`))
	request, refused := CheckResponse(in, false)
	if refused != nil {
		t.Fatal(refused)
	}
	reply := completion.Reply{Block: "SAFETY", Candidates: []completion.Candidate{{Finish: "STOP", Query: "q", Sources: []completion.Source{{URL: "u", Title: "t", End: 2}}, Parts: []completion.Part{
		{Thought: true, Text: "hm"}, {Text: "hello"}, {Call: &completion.Call{Name: "f", Args: json.RawMessage(`{"a":"b"}`)}},
		{Call: &completion.Call{Name: "patch", Args: json.RawMessage(`{"input":"*** Begin"}`)}}, {Image: &completion.Image{MIME: "image/png", Data: "aaaa"}}}}}}
	var kinds []string
	var items, output []json.RawMessage
	for i, event := range request.Events(&reply) {
		var e struct {
			Type     string          `json:"type"`
			Sequence int             `json:"sequence_number"`
			Item     json.RawMessage `json:"item"`
			Response struct{ Output []json.RawMessage }
		}
		if err := json.Unmarshal(event.Data, &e); err != nil || e.Sequence != i || e.Type != event.Name {
			t.Fatalf("%v: %s", err, event.Data)
		}
		kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
		if e.Type == "response.output_item.done" {
			items = append(items, e.Item)
		}
		output = e.Response.Output
	}
	if fmt.Sprintf("%s", items) != fmt.Sprintf("%s", output) {
		t.Errorf("items\n%s\noutput\n%s", items, output)
	}
	want := "created in_progress " +
		"output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.annotation.added output_text.done content_part.done output_item.done " +
		"output_item.added function_call_arguments.delta function_call_arguments.done output_item.done " +
		"output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done " +
		"output_item.added image_generation_call.in_progress image_generation_call.generating image_generation_call.completed output_item.done " +
		"output_item.added content_part.added refusal.delta refusal.delta refusal.done content_part.done output_item.done completed"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFinishReasonsDecideTheStatus(t *testing.T) {
	for finish, want := range map[string]string{"STOP": "completed", "MAX_TOKENS": "incomplete", "SAFETY": "incomplete", "anything": "failed"} {
		request, refused := CheckResponse(responseInput(responseBody("gpt-5", ``)), false)
		if refused != nil {
			t.Fatal(refused)
		}
		events := request.Events(&completion.Reply{Candidates: []completion.Candidate{{Finish: finish, Parts: []completion.Part{{Text: "x"}}}}})
		if last := events[len(events)-1]; last.Name != "response."+want || !strings.Contains(string(last.Data), `"status":"`+want+`"`) {
			t.Errorf("%s: %s %s", finish, last.Name, last.Data)
		}
	}
}

func FuzzResponse(f *testing.F) {
	for _, c := range responseCases {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in := responseInput(string(body))
		request, refused := CheckResponse(in, false)
		if (request == nil) == (refused == nil) {
			t.Fatalf("%v and %v", request, refused)
		}
		if refused != nil && (!json.Valid(in.Profile.Encode(refused)) || refused.Status < 400 || refused.Rule == "") {
			t.Errorf("%+v: %s", refused, in.Profile.Encode(refused))
		}
	})
}
