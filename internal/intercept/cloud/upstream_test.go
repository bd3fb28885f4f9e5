package cloud

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/providererr"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/upstream/antigravity"
)

// A transport takes requests of the antigravity upstream into requests of a language server that
// the rig plays.
type transport struct {
	*rig
	mu    sync.Mutex
	built string // what the upstream built last
	ls    <-chan copied
}

func (c *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	e := c.calls.Expect(req.Context(), cascade, Call{Model: rawjson.NewCursor(member(body, "model")).String(), Request: member(body, "request")})
	defer e.Cancel()
	c.mu.Lock()
	c.built, c.ls = string(body), c.carrier(native(agentID(cascade)))
	c.mu.Unlock()
	return answerOf(c.T, e)
}

func member(body []byte, path ...string) []byte {
	start, end, _ := rawjson.Find(body, path...)
	return body[start:end]
}

// An account that is always there.
type signedIn struct{}

func (signedIn) Acquire(pool.Request) pool.Acquisition    { return signedIn{} }
func (signedIn) Next(context.Context) (pool.Lease, error) { return signedIn{}, nil }
func (signedIn) Account() pool.Leased {
	return pool.Leased{Email: "ada@example.com", Project: "p"}
}
func (signedIn) Token(context.Context) (perigee.Secret, error) {
	return perigee.NewSecret("of-perigee"), nil
}
func (signedIn) Refused(perigee.Secret)      {}
func (signedIn) Answering()                  {}
func (signedIn) Done(*providererr.Diagnosis) {}

// ask makes a call with the antigravity upstream and returns its events.
func (c *transport) ask(model, body string) (heard string) {
	c.Helper()
	u := antigravity.New(antigravity.Options{Name: "ls", Endpoints: []string{"http://language.server"}, Accounts: signedIn{}, Transport: c})
	defer u.Close()
	req, err := dialect.DecodeRequest(perigee.Origin{ID: "call-1", Body: []byte(body), Log: &perigee.CallLog{}}, model, true)
	if err != nil {
		c.Fatal(err)
	}
	req.Dialect = perigee.DialectOpenAIChat
	var list []string
	for ev, err := range u.Stream(c.Context(), req) {
		switch {
		case err != nil:
			list = append(list, fmt.Sprintf("error %s", perigee.AsError(err).Class))
		case ev.Kind == perigee.EventText:
			list = append(list, "text "+ev.Text)
		case ev.Kind == perigee.EventThinking:
			list = append(list, "thinking "+ev.Text)
		case ev.Kind == perigee.EventCall:
			list = append(list, fmt.Sprintf("call %s %s", ev.Call.Name, ev.Call.Args))
		case ev.Kind == perigee.EventGrounding:
			list = append(list, "grounding")
		case ev.Kind == perigee.EventUsage:
			list = append(list, fmt.Sprintf("usage %d %d", ev.Usage.Input, ev.Usage.Output))
		case ev.Kind == perigee.EventFinish:
			list = append(list, "finish "+ev.Finish.Reason)
		}
	}
	return strings.Join(list, "; ")
}

// The steps by which a request is changed: what reaches the cloud is what the antigravity upstream
// built, byte for byte, in the envelope of the language server.
func TestStepsOfTheChange(t *testing.T) {
	const text = `"contents":[{"role":"user","parts":[{"text":"what is \u00e9 < 1.0e2?"}]}]`
	for _, c := range []struct{ name, model, body, want string }{
		{"tools", "gemini-3-flash", `{` + text + `,"tools":[{"functionDeclarations":[{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]}]}`, `"name":"read"`},
		{"tool choice", "gemini-3-flash", `{` + text + `,"tools":[{"functionDeclarations":[{"name":"read"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`, `"mode":"ANY"`},
		{"generation parameters", "gemini-3-flash", `{` + text + `,"generationConfig":{"temperature":0.25,"topP":0.5,"maxOutputTokens":77,"stopSequences":["END"],"frequencyPenalty":0.5,"presencePenalty":0.25}}`, `"temperature":0.25`},
		{"an image", "gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":"see"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}]}`, `"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}`},
		{"tool results", "gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"read","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"text of the file"}}}]}],"tools":[{"functionDeclarations":[{"name":"read"}]}]}`, `"functionResponse":`},
		{"search", "gemini-3-flash", `{` + text + `,"tools":[{"googleSearch":{}}]}`, `"googleSearch"`},
		{"the text of the user", "gemini-3-flash", `{` + text + `}`, `what is \u00e9 < 1.0e2?`},
		{"the system prompt", "gemini-3-flash", `{` + text + `,"systemInstruction":{"parts":[{"text":"be brief"}]}}`, `be brief`},
		{"Claude", "claude-sonnet-4-6", `{` + text + `,"tools":[{"functionDeclarations":[{"name":"read"}]}]}`, `"name":"read"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &transport{rig: newCallRig(t, events(hello, calling))}
			if heard := r.ask(c.model, c.body); !strings.HasPrefix(heard, "text hello; ") {
				t.Errorf("heard %s", heard)
			}
			got, built := r.requests()[0], []byte(r.built)
			if !strings.Contains(got.body, c.want) {
				t.Errorf("the cloud got %s", got.body)
			}
			if got.length != int64(len(got.body)) {
				t.Errorf("length %d of %d", got.length, len(got.body))
			}
			ours, err := membersOf(member(built, "request"))
			if err != nil || ours["contents"] == "" || ours["sessionId"] == "" {
				t.Fatalf("the upstream built %s, %v", built, err)
			}
			ours["sessionId"], ours["labels"] = `"-3750763034362895579"`, `{"trajectory_id":"t-1","model_enum":"MODEL_PLACEHOLDER_M18"}`
			theirs, err := membersOf(member([]byte(got.body), "request"))
			if err != nil || len(theirs) != len(ours) {
				t.Errorf("the cloud got the members %v, %v", theirs, err)
			}
			for name, value := range ours {
				if theirs[name] != value {
					t.Errorf("%s is %s\nwant %s", name, theirs[name], value)
				}
			}
			around, err := membersOf([]byte(got.body))
			if delete(around, "request"); err != nil || fmt.Sprint(around) != fmt.Sprint(map[string]string{"project": `"project-ls"`, "requestId": `"` + agentID(cascade) + `"`,
				"model": `"` + c.model + `"`, "userAgent": `"antigravity"`, "requestType": `"agent"`}) {
				t.Errorf("the envelope is %v, %v", around, err)
			}
			if got.header.Get("Authorization") != "Bearer token-of-the-language-server" {
				t.Errorf("sent with %s", got.header.Get("Authorization"))
			}
			for _, foreign := range []string{"Antigravity\"", "run_command", "USER_REQUEST", "16384", "gemini-native", "of-perigee"} {
				if strings.Contains(got.body, foreign) {
					t.Errorf("%s is still there", foreign)
				}
			}
			await.Receive(t, r.ls, "the answer for the language server")
		})
	}
}

func membersOf(object []byte) (map[string]string, error) {
	list := map[string]string{}
	err := rawjson.CheckTop(object, func(m rawjson.Member) { list[string(m.Name)] = string(object[m.Start:m.End]) })
	return list, err
}

// What the cloud can say, what the client hears of it, and what the language server gets.
func TestEventsOfAnswers(t *testing.T) {
	say := func(part string) string {
		return `{"response":{"candidates":[{"content":{"role":"model","parts":[` + part + `]}}]},"traceId":"7","metadata":{}}`
	}
	const (
		usage = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1514,"candidatesTokenCount":25,"totalTokenCount":1591,"thoughtsTokenCount":52}}}`
		found = `{"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"it rains"}]},"groundingMetadata":{"webSearchQueries":["weather"],"groundingChunks":[{"web":{"uri":"https://example.org/","title":"Weather"}}],"groundingSupports":[]}}]}}`
		tool  = `{"functionCall":{"name":"read","args":{"path":"a"}}}`
	)
	for _, c := range []struct {
		name   string
		chunks []string
		heard  string
	}{
		{"TextDelta", []string{say(`{"text":"he"}`), say(`{"text":"llo"}`), usage}, "text he; text llo; finish STOP; usage 1514 77"},
		{"ThinkingDelta", []string{say(`{"thought":true,"text":"hmm"}`), say(`{"text":"yes"}`), usage}, "thinking hmm; text yes; finish STOP; usage 1514 77"},
		{"Usage", []string{say(`{"text":"a"}`), usage}, "text a; finish STOP; usage 1514 77"},
		{"FunctionCall", []string{say(tool), usage}, `call read {"path":"a"}; finish STOP; usage 1514 77`},
		{"Grounding", []string{found, usage}, "text it rains; grounding; finish STOP; usage 1514 77"},
		{"ResponseComplete", []string{say(`{"text":"a"}`), strings.Replace(usage, "STOP", "MAX_TOKENS", 1)}, "text a; finish MAX_TOKENS; usage 1514 77"},
		{"UpstreamError in the stream", []string{say(`{"text":"a"}`), `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`}, "text a; error capacity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &transport{rig: newCallRig(t, events(c.chunks...))}
			if heard := r.ask("gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"read"}]}]}`); heard != c.heard {
				t.Errorf("heard %s\n want %s", heard, c.heard)
			}
			ls := await.Receive(t, r.ls, "the answer for the language server")
			if strings.HasSuffix(c.heard, "error capacity") {
				return // the client has left with the error, and how much the language server got of it is open
			}
			want := ""
			for _, chunk := range c.chunks {
				want += "data: " + strings.Replace(chunk, tool, closing, 1) + "\r\n\r\n"
			}
			if ls.err != nil || ls.body != want {
				t.Errorf("the language server got %v %s\nwant %s", ls.err, ls.body, want)
			}
		})
	}
}

// Errors of the cloud go to both as they are.
func TestErrorsGoToBoth(t *testing.T) {
	for status, name := range map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf("{\n  \"error\": {\"code\": %d, \"message\": \"no functionCall\", \"status\": %q}\n}\n", status, name)
			r := newCallRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset=UTF-8")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
			e := r.calls.Expect(t.Context(), cascade, Call{Request: []byte(`{}`)})
			got := r.carrier(native(agentID(cascade)))
			response, err := answerOf(t, e)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != status || string(text) != body || response.Header.Get("Retry-After") != "7" {
				t.Errorf("the client got %d %s %v", response.StatusCode, text, err)
			}
			if ls := await.Receive(t, got, "the answer"); ls.status != status || ls.body != body || ls.header.Get("Retry-After") != "7" || ls.header.Get("Content-Length") != fmt.Sprint(len(body)) {
				t.Errorf("the language server got %+v", ls)
			}
		})
	}
}
