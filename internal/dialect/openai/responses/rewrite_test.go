package responses

import (
	"errors"
	"strings"
	"testing"

	"perigee"
)

// Items without content of their own are removed with one comma, and all other bytes stay.
func TestBareItemsAreRemoved(t *testing.T) {
	const bare, reference, user = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"x"}]}`, `{ "id":"m","type":"item_reference" }`, `{"role":"user","content":"hi"}`
	for input, want := range map[string]string{
		`[` + bare + `]`:                                                            `[]`,
		`[ ` + bare + ` , ` + reference + "\n]":                                     "[\n]",
		`[ ` + bare + ` , ` + user + ` ]`:                                           `[ ` + user + ` ]`,
		`[ ` + user + ` , ` + bare + ` ]`:                                           `[ ` + user + ` ]`,
		`[` + bare + `,` + reference + `, ` + user + `]`:                            `[ ` + user + `]`,
		`[` + user + `,` + bare + `,` + user + `]`:                                  `[` + user + `,` + user + `]`,
		`[` + user + `, ` + reference + `,` + bare + ` ]`:                           `[` + user + ` ]`,
		`[ "text", 5 ,` + user + `]`:                                                `[ "text", 5 ,` + user + `]`,
		`"` + `reasoning` + `"`:                                                     `"reasoning"`,
		`[{"type":"reasoning","id":"rs_1","encrypted_content":null}]`:               `[]`,
		`[{"type":"reasoning","id":"rs_1","content":[]}]`:                           `[]`,
		`[{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA"}]`:             `[{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA"}]`,
		`[{"type":"reasoning","id":"rs_1","content":[{"type":"reasoning_text"}]}]`:  `[{"type":"reasoning","id":"rs_1","content":[{"type":"reasoning_text"}]}]`,
		`[{"type":"reasoning","summary":[]}]`:                                       `[{"type":"reasoning","summary":[]}]`,
		`[{"type":"message","id":"msg_1"},{"type":"compaction","id":"cmp_1"}, "x"]`: `[{"type":"message","id":"msg_1"},{"type":"compaction","id":"cmp_1"}, "x"]`,
	} {
		const before, after = "{ \"store\":false, \"input\": ", ", \"tools\":[ {\"type\":\"item_reference\"} ] }\n"
		got := string(FindOwnItems(nil, []byte(before+input+after)).Without((*OwnItem).IsBare))
		if got != before+want+after {
			t.Errorf("%s:\ngot  %q\nwant %q", input, got, before+want+after)
		}
	}
}

func TestStateless(t *testing.T) {
	for body, want := range map[string]bool{
		`{"store":false}`: true, `{"model":"m", "store" : false}`: true, `{"store":true}`: false, `{"store":null}`: false, `{}`: false,
		`{"metadata":{"store":false}}`: false,
	} {
		if FindOwnItems(nil, []byte(body)).Stateless != want {
			t.Errorf("%s: want %v", body, want)
		}
	}
}

// A request that continues a response at an upstream is pinned to it, and can be forwarded but not
// translated. One that continues a response that is stored here can be translated but not forwarded.
func TestContinuedResponses(t *testing.T) {
	find := func(id string) (*perigee.StoredResponse, error) {
		switch id {
		case "resp_there":
			return &perigee.StoredResponse{Input: []byte("[]"), Output: []byte("[]"), Response: Elsewhere("openai")}, nil
		case "resp_here":
			return &perigee.StoredResponse{Response: []byte(`{"object":"response"}`), Output: []byte("[]"),
				Input: []byte(`[{"id":"msg_here_0","type":"message","role":"user","content":"hi"}]`)}, nil
		}
		return nil, perigee.Errorf(perigee.ClassNotFound, "no response")
	}
	const lost = "previous_response_not_found"
	for _, c := range []struct {
		members         string
		pinned          string
		forwards        bool
		refused, unread string // the code or the words of an error
	}{
		{`"input":"on"`, "", true, "", ""},
		{`"input":"on","previous_response_id":"resp_there"`, "openai", true, "", lost},
		{`"input":"on","previous_response_id":"resp_here"`, "", false, "", ""},
		{`"input":"on","previous_response_id":"resp_other"`, "", false, lost, ""},
		{`"input":"on","previous_response_id":"resp_there","previous_response_id":"resp_here"`, "", false, "duplicate", ""},
		{`"input":[{"type":"dream"},{"role":"wizard","content":[{"type":"input_image","image_url":"file:///x"}]}],"truncation":"some"`, "", false, "image_url: want", ""},
		{`"input":[{"role":"user","content":[{"type":"input_text","text":5},{"type":"input_image","image_url":"/x"}]}]`, "", false, "image_url: want", ""},
		{`"input":[{"type":"item_reference","id":"msg_1"}]`, "", true, "", "not found"},
		{`"input":[{"type":"item_reference","id":"msg_here_0"}]`, "", false, "", ""},
		{`"input":[{"type":"item_reference","id":"msg_here_0"},{"type":"item_reference","id":"msg_1"}]`, "", false, "not found", ""},
		{`"input":[{"type":"item_reference","id":"msg_here_0"}],"previous_response_id":"resp_there"`, "", false, lost, ""},
		{`"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]`, "", true, "", "file_id"},
		{`"input":[{"role":"user","content":[{"type":"input_image","image_url":"/etc/passwd"}]}]`, "", false, "image_url: want", ""},
		{`"input":[{"role":"user","content":[{"type":"input_image","image_url":"/etc/passwd"}]}],"previous_response_id":"resp_there"`, "", false, "image_url: want", ""},
		{`"input":"on","temperature":"hot"`, "", true, "", "temperature"},
		{`"input":"on","stream":"yes"`, "", false, "stream", ""},
	} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m",` + c.members + `}`)}, find)
		if !fails(err, c.refused) {
			t.Errorf("%s: %v, want %q", c.members, err, c.refused)
		}
		if err != nil {
			continue
		}
		if _, err := req.Prompt(); !fails(err, c.unread) {
			t.Errorf("%s: %v, want %q", c.members, err, c.unread)
		}
		if forwards := req.Verbatim(perigee.DialectOpenAIResponses); forwards != c.forwards || req.Pinned != c.pinned {
			t.Errorf("%s: forwarded %v, pinned to %q", c.members, forwards, req.Pinned)
		}
	}
}

// Media that are files of the provider's machine reach no provider. Whatever else is wrong with the
// input is left to the provider that gets it, and refused where it is translated.
func TestInputIsInspectedBeforeItIsForwarded(t *testing.T) {
	const local = "want a data: or https: URL"
	part := func(part string) string {
		return `[{"role":"user","content":[{"type":"input_text","text":"?"},` + part + `]}]`
	}
	result := func(output string) string {
		return `[{"role":"user","content":"?"},{"type":"function_call_output","call_id":"c","output":` + output + `}]`
	}
	for _, c := range []struct{ input, refused, unread string }{
		{part(`{"type":"input_image","image_url":"/etc/passwd"}`), local, ""},
		{part(`{"image_url":"file:\/\/\/etc\/passwd","type":"input_image"}`), local, ""},
		{part(`{"type":"input\u005fimage","image\u005furl":"cat.png","file_id":"file-1"}`), local, ""},
		{part(`{"type":"input_file","file_url":"/etc/passwd","filename":"a.pdf"}`), local, ""},
		{part(`{"type":"input_image","image_url":{"url":"/etc/passwd"}}`), local, ""},
		{part(`{"type":"input_image","image_url":"https://example.org/a.png","image_url":"/etc/passwd"}`), "duplicate", ""},
		{part(`{"type":"input_text","text":5},7,{"type":"input_image","image_url":"a.png"}`), local, ""},
		{result(`[{"type":"input_image","image_url":"/etc/passwd"}]`), local, ""},
		{result(`{"type":"computer_screenshot","image_url":"/etc/passwd"}`), local, ""},
		{`[{"output":[{"type":"input_file","file_url":"../a"}],"type":"custom_tool_call_output"}]`, local, ""},
		{`[5,{"type":"dream","content":[{"type":"input_image","image_url":"/etc/passwd"}]}]`, local, ""},

		{part(`{"type":"input_text","text":"?","image_url":"/etc/passwd"}`), local, ""},
		{result(`[{"path":"a.png","image_url":"a.png"}]`), local, ""},
		{result(`{"type":"input_image","image_url":"/etc/passwd"}`), local, ""},
		{`{"role":"user","content":{"image_url":"/etc/passwd"}}`, local, ""},
		{`"?","tools":[{"type":"image_generation","input_image_mask":{"image_url":"/etc/passwd"}}]`, local, ""},

		{`[{"role":"user","content":"?"},{"type":"additional_tools","tools":[{"type":"image_generation","input_image_mask":{"image_url":"/etc/passwd"}}]}]`,
			"input[1].tools[0].input_image_mask.image_url: " + local, ""},
		{`"?","prompt":{"id":"p","variables":{"i":{"type":"input_image","image_url":"/etc/passwd"}}}`, "prompt.variables.i.image_url: " + local, ""},

		{`"?","prompt":{"id":"p","variables":{"image_url":"a.png","i":{"type":"input_image","image_url":"https://example.org/a.png"}}}`, "", "keeps no prompts"},
		{part(`{"type":"input_image","image_url":"data:image/png;base64,aGk="}`), "", ""},
		{part(`{"type":"input_image","image_url":"HTTPS:\/\/example.org/a.png"}`), "", ""},
		{part(`{"type":"input_file","file_url":"https://example.org/a.pdf"}`), "", ""},
		{part(`{"type":"input_text","text":"/etc/passwd"}`), "", ""},
		{result(`"/etc/passwd"`), "", ""},
		{result(`[{"path":"/etc/passwd"}]`), "", ""},

		{part(`{"type":"input_image","image_url":null}`), "", local},
		{part(`{"type":"input_image","file_id":"file-1"}`), "", "file_id"},
		{part(`{"type":"input_image","image_url":"data:image/png"}`), "", "want a comma"},
		{part(`{"type":"input_text","text":5}`), "", "want a string"},
		{`[{"role":"wizard","content":"?"}]`, "", "wizard"},
		{`[{"role":"user","content":5}]`, "", "input[0].content: want an array"},
		{`[5]`, "", "input[0]: want an object"},
		{`5`, "", "input: want an array"},
		{`[]`, "", "nothing is asked"},
	} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","store":false,"input":` + c.input + `}`)}, nil)
		if !fails(err, c.refused) {
			t.Errorf("%s: %v, want %q", c.input, err, c.refused)
		}
		if err != nil {
			continue
		}
		if !req.Verbatim(perigee.DialectOpenAIResponses) {
			t.Errorf("%s cannot be forwarded", c.input)
		}
		if _, err := req.Prompt(); !fails(err, c.unread) {
			t.Errorf("%s: %v, want %q", c.input, err, c.unread)
		}
	}
}

// Only a request with items that not every provider can read is looked through for them.
func TestPlainItems(t *testing.T) {
	for input, want := range map[string]bool{
		`"reasoning"`: true, `[]`: true, `[{"role":"user","content":[{"type":"input_text","text":"reasoning"}]},"reasoning"]`: true,
		`[{"type":"message","role":"user","content":[{"type":"reasoning"}]}]`:         true,
		`[{"role":"user","content":"?"},{"type":"reasoning","summary":[]}]`:           false,
		`[{"summary":[],"type":"reas\u006fning"},{"role":"user","content":"?"}]`:      false,
		`[{"role":"user","content":"?"},{"id":"msg_1","type":"item_reference"},"on"]`: false,
	} {
		req, err := DecodeRequest(perigee.Origin{Body: []byte(`{"model":"m","reasoning":{"effort":"low"},"input":` + input + `}`)}, nil)
		if err != nil || req.PlainItems != want {
			t.Errorf("%s: plain %v (%v), want %v", input, !want, err, want)
			continue
		}
		if list := FindOwnItems(nil, req.Body).List; (len(list) == 0) != want {
			t.Errorf("%s: found %+v", input, list)
		}
	}
}

// What a request takes before its conversation is decoded does not depend on the number of items.
func TestForwardedInputIsNotDecoded(t *testing.T) {
	allocations := func(n int) float64 {
		body := agentBody(n)
		return testing.AllocsPerRun(10, func() {
			if _, err := DecodeRequest(perigee.Origin{Body: body}, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Decoding allocates several times for each step. A few allocations more are of the index, whose
	// memory comes from a sync.Pool, which forgets some of it under the race detector.
	if few, many := allocations(2), allocations(200); few == 0 || many > few+50 {
		t.Errorf("%v allocations for 2 steps, %v for 200", few, many)
	}
}

// fails reports whether an error has a code or words; none if they are empty.
func fails(err error, words string) bool {
	if err == nil || words == "" {
		return err == nil && words == ""
	}
	fault, ok := errors.AsType[*perigee.Fault](err)
	return ok && fault.Code == words || strings.Contains(err.Error(), words)
}
