package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"perigee/internal/simulator/rules"
	"perigee/internal/testing/perigeetest/await"
)

func TestAPIKeys(t *testing.T) {
	r := newRig(t, Options{APIKeys: []APIKey{{Key: "good"}}})
	r.do("GET", "/v1beta/models", "").want(t, 403, "PERMISSION_DENIED", "unregistered callers")
	r.do("GET", "/v1beta/models", "", "X-Goog-Api-Key", "bad").want(t, 400, `"reason":"API_KEY_INVALID"`, "INVALID_ARGUMENT")
	r.do("GET", "/v1beta/models", "", "X-Goog-Api-Key", "good").want(t, 200)
	r.do("GET", "/v1beta/models?key=good", "").want(t, 200)
	newRig(t, Options{}).do("GET", "/v1beta/models?key=whatever", "").want(t, 200)
}

func TestModelsArePaged(t *testing.T) {
	r := newRig(t, Options{})
	var names []string
	token, pages := "", 0
	for {
		var page struct {
			Models        []officialModel
			NextPageToken string
		}
		r.do("GET", "/v1beta/models?key=k&pageSize=7&pageToken="+token, "").decode(t, &page)
		for _, m := range page.Models {
			names = append(names, strings.TrimPrefix(m.Name, "models/"))
		}
		pages++
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if want := rules.ModelTable(); len(names) != len(want) || pages != (len(want)+6)/7 {
		t.Errorf("%d models on %d pages: %v", len(names), pages, names)
	}
	r.do("GET", "/v1beta/models?key=k&pageToken=xx", "").want(t, 400)
	r.do("GET", "/v1beta/models?key=k&pageSize=x", "").want(t, 400)
	r.do("GET", "/v1beta/models/claude-sonnet-4-6?key=k", "").want(t, 200, `"name":"models/claude-sonnet-4-6"`)
	r.do("GET", "/v1beta/models/nope?key=k", "").want(t, 404, "models/nope is not found")
}

func TestOfficialMethods(t *testing.T) {
	r := newRig(t, Options{})
	r.official("gemini-2.5-flash:generateContent", prompt("hi")).want(t, 200, "You said: hi", `"index":0`)
	r.official("claude-sonnet-4-6:generateContent", prompt("hi")).want(t, 200, "You said: hi", "msg_vrtx_")
	r.official("gemini-2.5-flash:countTokens", prompt("12345678")).want(t, 200, `"totalTokens":2`)
	r.official("gemini-2.5-flash:embedContent", `{"content":{"parts":[{"text":"a"}]}}`).want(t, 404, "not supported for embedContent")
	r.official("gemini-embedding-001:generateContent", prompt("hi")).want(t, 404)
	r.official("gemini-2.5-flash:nonsense", prompt("hi")).want(t, 404, "<!DOCTYPE html>")
	r.official("nope:generateContent", prompt("hi")).want(t, 404, "models/nope is not found")
	r.official("gemini-2.5-flash:generateContent", `{"contents":[],"messages":[]}`).want(t, 400, `Unknown name \"messages\"`)
	r.official("gemini-2.5-flash:generateContent", `{"contents":`).want(t, 400, "Invalid JSON payload")
	r.do("GET", "/v1beta/models/gemini-2.5-flash:generateContent?key=k", "").want(t, 404)
}

func TestFaultsReachTheOfficialAPI(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{
		{Do: "rate_limit", When: When{Method: "generateContent"}, Times: 1},
		{Do: "capacity", When: When{Method: "embedContent"}, Times: 1},
		{Do: "unauthorized", When: When{Path: "/v1beta/models", Method: "GET"}, Times: 1},
	}}})
	r.official("gemini-2.5-flash:generateContent", prompt("hi")).want(t, 429, "QuotaFailure", `"retryDelay":"0.479417207s"`, "You exceeded your current quota")
	r.official("gemini-2.5-flash:generateContent", prompt("hi")).want(t, 200)
	r.official("gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"a"}]}}`).want(t, 503)
	r.do("GET", "/v1beta/models?key=k", "").want(t, 401)
}

func TestEmbeddings(t *testing.T) {
	r := newRig(t, Options{})
	vector := func(text, more string) []float64 {
		var got struct{ Embedding embedding }
		a := r.official("gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"`+text+`"}]}`+more+`}`)
		a.want(t, 200)
		a.decode(t, &got)
		return got.Embedding.Values
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	cat := vector("the black cat", "")
	if len(cat) != 3072 || math.Abs(dot(cat, cat)-1) > 1e-9 {
		t.Errorf("%d values of length %v", len(cat), dot(cat, cat))
	}
	if near, far := dot(cat, vector("the white cat", "")), dot(cat, vector("compile an empty program", "")); near < 0.4 || math.Abs(far) > 0.2 {
		t.Errorf("near %v, far %v", near, far)
	}
	if short := vector("the black cat", `,"outputDimensionality":10`); len(short) != 10 || math.Abs(dot(short, short)-1) > 1e-9 {
		t.Errorf("%v", short)
	}
	var batch struct{ Embeddings []embedding }
	const one = `{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"the black cat"}]}}`
	r.official("gemini-embedding-001:batchEmbedContents", `{"requests":[`+one+`,`+one+`]}`).decode(t, &batch)
	if len(batch.Embeddings) != 2 || batch.Embeddings[1].Values[0] != cat[0] {
		t.Error("the batch differs")
	}
	for _, bad := range []string{`{}`, `{"content":{"parts":[{"text":""}]}}`, `{"content":{"parts":[{"text":"a"}]},"x":1}`,
		`{"content":{"parts":[{"text":"a"}]},"outputDimensionality":0}`, `{"model":"models/other","content":{"parts":[{"text":"a"}]}}`} {
		r.official("gemini-embedding-001:embedContent", bad).want(t, 400)
	}
	r.official("gemini-embedding-001:batchEmbedContents", `{"requests":[]}`).want(t, 400)
	r.official("gemini-embedding-001:batchEmbedContents", `{"requests":[`+one+`,`+strings.Replace(one, "gemini-embedding-001", "text-embedding-004", 1)+`]}`).
		want(t, 400, "INVALID_ARGUMENT", "must be the model of the call")
	r.official("gemini-embedding-001:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]}}]}`).want(t, 400)
}

func TestAdmin(t *testing.T) {
	r := newRig(t, Options{Admin: true})
	r.do("POST", "/simulator/faults", `{"do":"internal_500","times":1,"when":{"call":2}}`).want(t, 200, `"call":"2"`)
	r.do("POST", "/simulator/faults", `{"faults":[{"do":"capacity","when":{"model":"claude"}}]}`).want(t, 200, `"do":"capacity"`)
	r.do("POST", "/simulator/faults", `{"do":"nonsense"}`).want(t, 400, "unknown fault")
	r.do("POST", "/simulator/faults", `{"faults":[{"do":"capacity","wen":{}}]}`).want(t, 400, `unknown key "wen"`)
	r.do("POST", "/simulator/faults", `{"do":"capacity","dely":"1s"}`).want(t, 400, `unknown key "dely"`)

	r.official("gemini-2.5-flash:generateContent", prompt("hi")).want(t, 200)
	r.official("gemini-2.5-flash:generateContent", prompt("hi")).want(t, 500)
	r.official("gemini-2.5-flash:generateContent", `{"contents":[]}`).want(t, 400)
	r.do("GET", "/simulator/faults", "").want(t, 200, `"matched":3,"struck":1`)
	var got struct{ Calls []Call }
	r.do("GET", "/simulator/calls", "").decode(t, &got)
	if len(got.Calls) != 3 || got.Calls[1].Fault != "internal_500" || got.Calls[1].Status != 500 || got.Calls[2].Rule == "" ||
		got.Calls[2].Model != "gemini-2.5-flash" || got.Calls[0].Host != "daily-cloudcode-pa.googleapis.com" || got.Calls[2].Seq != 3 {
		t.Errorf("%+v", got.Calls)
	}
	r.do("POST", "/simulator/clock", `{"advance":"1h"}`).want(t, 200, "2026-08-01T11:00:00Z")
	r.do("POST", "/simulator/clock", `{"advance":"-1h"}`).want(t, 400)
	r.do("DELETE", "/simulator/faults", "").want(t, 200, `"faults":[]`)
	r.do("POST", "/simulator/reset", "").want(t, 200, "2026-08-01T10:00:00Z")
	if calls := r.server.Calls(); len(calls) != 0 {
		t.Errorf("%+v", calls)
	}
	r.do("GET", "/simulator/nonsense", "").want(t, 404)
}

func TestCallLogIsBounded(t *testing.T) {
	var log callLog
	for range maxCalls + 10 {
		log.add(Call{})
	}
	if got := log.list(); len(got) != maxCalls || got[0].Seq != 11 || got[maxCalls-1].Seq != maxCalls+10 {
		t.Errorf("%d from %d", len(got), got[0].Seq)
	}
}

func TestLoadScript(t *testing.T) {
	script, err := LoadScript(strings.NewReader(`
accounts:
  - {email: a@example.com, refresh_token: r, project: p, tier: g1-pro-tier, credits: 10, limits: {five_hour: 3}}
models:
  gemini-3-flash: {min_version: 2.0.0, accounts: [a@example.com]}
switches: {accept_thinking_level: false}
rotate_refresh_tokens: true
faults:
  - {do: slow, delay: 20ms, when: {host: sandbox, call: "2-4"}}
`))
	if err != nil || len(script.Accounts) != 1 || script.Accounts[0].Limits.FiveHour != 3 || *script.Faults[0].When.Call != (CallRange{2, 4}) {
		t.Fatalf("%+v %v", script, err)
	}
	r := newRig(t, Options{Script: script})
	if r.server.switches.AcceptThinkingLevel || !r.server.switches.BudgetMinusOneOK {
		t.Errorf("%+v", r.server.switches)
	}
	if empty, err := LoadScript(strings.NewReader("")); err != nil || len(empty.Faults) != 0 {
		t.Errorf("%+v %v", empty, err)
	}
	for text, want := range map[string]string{
		"falts: []":                                      `line 1: unknown key "falts"; did you mean faults?`,
		"accounts:\n  - {email: a, colour: red}":         `line 2: unknown key "colour", want one of email, `,
		"faults:\n  - do: hang\n    wenn: {}":            `line 3: unknown key "wenn"`,
		"faults:\n  - do: hang\n    when:\n      hst: x": `line 4: unknown key "hst"`,
		"faults:\n  - do: explode":                       `line 2: unknown fault "explode", want one of array_error, `,
		"faults:\n  - do: rate_limt":                     `line 2: unknown fault "rate_limt"; did you mean rate_limit?`,
		"models: {gemini-3-flsh: {}}":                    `there is no model "gemini-3-flsh" to override; did you mean gemini-3-flash?`,
		"switches: {acept_thinking_level: true}":         `unknown switch "acept_thinking_level"; did you mean accept_thinking_level?`,
		"faults:\n  - {do: slow, delay: soon}":           `line 2: "soon" is not a duration`,
		"faults:\n  - {do: slow, when: {call: 4-2}}":     `line 2: call "4-2"`,
		"faults:\n  - {do: slow, times: -1}":             "line 2: fault slow has a negative number",
		"min_version: two":                               "not X.Y.Z",
		"oauth_errors: odd":                              "want oauth or google",
		"a: 1\n---\nb: 2":                                `line 1: unknown key "a"`,
	} {
		if _, err := LoadScript(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := New(Options{Script: &Script{Switches: map[string]any{"acept_thinking_level": true}}}); err == nil {
		t.Error("an unknown switch is accepted")
	}
}

// All mistakes of a script are reported at once.
func TestScriptsAreCheckedAtOnce(t *testing.T) {
	_, err := LoadScript(strings.NewReader(`
acounts: []
faults:
  - {do: rate_limt, when: {hots: x}, times: often}
  - {do: slow, delay: soon, tims: 2}
  - {do: slow, when: {call: never}}
keys: [{key: a, limits: {per_weak: 1}}]
min_version: two
switches: {unions_in_schema: acept}
`))
	want := `simulator script: line 2: unknown key "acounts"; did you mean accounts?
simulator script: line 4: unknown key "hots"; did you mean host?
simulator script: line 4: unknown fault "rate_limt"; did you mean rate_limit?
simulator script: line 4: "often" is not a number
simulator script: line 5: unknown key "tims"; did you mean times?
simulator script: line 5: "soon" is not a duration such as 50ms
simulator script: line 6: call "never" is neither a number nor a range such as 2-4
simulator script: line 7: unknown key "per_weak"; did you mean per_day?
simulator script: min_version "two" is not X.Y.Z
simulator script: switch unions_in_schema is acept, want one of accept, ignore, reject`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := LoadScript(strings.NewReader("accounts:\n  - &ada {email: a, tier: free-tier}\n  - {<<: *ada, email: b}\n")); err != nil {
		t.Error(err)
	}
}

func TestAccountsAreChecked(t *testing.T) {
	for name, accounts := range map[string][]Account{
		"no email":      {{}},
		"twice":         {{Email: "a"}, {Email: "a"}},
		"shared tokens": {{Email: "a", RefreshToken: "r"}, {Email: "b", RefreshToken: "r"}},
	} {
		if _, err := New(Options{Accounts: accounts}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestTransportAfterClose(t *testing.T) {
	r := newRig(t, Options{})
	r.do("GET", "/", "").want(t, 200)
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if response, err := r.client.Get(r.base); err == nil {
		response.Body.Close()
		t.Error("a closed simulator answers")
	} else if !errors.Is(err, errSimulatorClosed) {
		t.Error(err)
	}
}

func TestCloseEndsHangingCalls(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "hang_after_headers"}}}})
	response, err := r.client.Do(r.request("POST", "/v1beta/models/gemini-2.5-flash:generateContent?key=k", prompt("hi")))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the body ended well")
	}
}

func TestLargeBodies(t *testing.T) {
	r := newRig(t, Options{})
	picture := `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"` + strings.Repeat("QUFB", 1<<18) + `"}},{"text":"hi"}]}]}`
	r.official("gemini-2.5-flash:generateContent", picture).want(t, 200, "You said: hi")
	r.server.maxBody = 1 << 10
	request, err := http.NewRequestWithContext(t.Context(), "POST", r.base+"/token", bytes.NewReader(make([]byte, 2<<10)))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := r.client.Do(request); err == nil { // the server may cut the upload short instead of answering
		defer response.Body.Close()
		if response.StatusCode != 400 {
			t.Error(response.Status)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := newRig(t, Options{Admin: true, Script: &Script{Faults: []Fault{{Do: "rate_limit", Times: 5}}}})
	token := "Bearer " + r.token("ada@example.com")
	statuses := make(chan int)
	const n = 40
	for i := range n {
		request := r.request("POST", "/v1internal:streamGenerateContent?alt=sse", envelopeOf("gemini-3-flash", prompt("hi")), "Authorization", token)
		if i%4 == 0 {
			request = r.request("GET", "/simulator/calls", "")
		}
		go func() {
			response, err := r.client.Do(request)
			if err != nil {
				statuses <- 0
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	count := map[int]int{}
	for range n {
		count[await.Receive(t, statuses, "an answer")]++
	}
	if count[429] != 5 || count[200] != n-5 {
		t.Errorf("%v", count)
	}
}

func TestUsageNamesEverything(t *testing.T) {
	text := Usage()
	for _, d := range directiveHelp {
		if !strings.Contains(text, d.form) {
			t.Errorf("no %s", d.form)
		}
		if found, _ := parseDirectives(d.form); len(found) != 1 || found[0].name != d.name {
			t.Errorf("the example %s is read as %+v", d.form, found)
		}
	}
	for _, name := range FaultNames() {
		if !strings.Contains(text, "\n  "+name+" ") {
			t.Errorf("no %s", name)
		}
	}
	var example Fault
	at := strings.Index(text, `{"when"`)
	if err := decodeStrict(strings.NewReader(text[at:at+strings.Index(text[at:], "\n")]), &example); err != nil || example.Do != "rate_limit" {
		t.Errorf("the example of a fault: %+v %v", example, err)
	}
	if _, err := json.Marshal(example); err != nil {
		t.Error(err)
	}
}
