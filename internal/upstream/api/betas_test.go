package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/dialect/anthropic"
	simulated "perigee/internal/simulator/anthropic"
	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest/await"
)

// A betaRig is Claude on Vertex AI, with the simulator's rules.
type betaRig struct {
	upstream *Upstream
	mu       sync.Mutex
	sent     []string // the betas and the body of each request
}

// openAccess authorizes every request.
type openAccess struct{}

func (openAccess) use(http.RoundTripper, string) {}
func (openAccess) authorize(*http.Request) error { return nil }
func (openAccess) refused(*http.Request)         {}
func (openAccess) unusable() string              { return "" }
func (openAccess) secrets() []perigee.Secret     { return nil }

func newBetaRig(t *testing.T, members Members) *betaRig {
	t.Helper()
	r := &betaRig{}
	remote := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(remote.Close)
	provider := newVertex(config.Upstream{Name: "cloud", URL: remote.URL, Project: "ada", Location: "global"})
	provider.access = openAccess{}
	r.upstream = New(provider, Options{Name: "cloud", URL: remote.URL, Members: members})
	t.Cleanup(func() { _ = r.upstream.Close() })
	return r
}

func (r *betaRig) serve(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	lines := req.Header.Values("Anthropic-Beta")
	r.mu.Lock()
	r.sent = append(r.sent, strings.Join(lines, "|")+" "+string(body))
	r.mu.Unlock()
	in := simulated.Input{Body: body}
	for name := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if name != "" {
			in.Betas = append(in.Betas, strings.TrimSpace(name))
		}
	}
	model := strings.TrimSuffix(req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:], ":rawPredict")
	if model == "count-tokens" {
		in.Method = simulated.Count
	}
	w.Header().Set("Content-Type", "application/json")
	if _, refusal := simulated.CheckVertex(in, model); refusal != nil {
		w.WriteHeader(refusal.Status)
		_, _ = w.Write(refusal.Body("req_vrtx_1"))
		return
	}
	if in.Method == simulated.Count {
		_, _ = io.WriteString(w, `{"input_tokens":7}`)
		return
	}
	_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
}

// request is one of a Messages client, with lines of betas and more members.
func (r *betaRig) request(t *testing.T, betas []string, more string) *perigee.Request {
	t.Helper()
	if !strings.Contains(more, `"messages"`) {
		more += defaultMessages
	}
	return decodeMessages(t, `{"model":"claude-sonnet-4-6",`+more+`}`, betas)
}

// defaultMessages are the messages of requests that have none of their own.
const defaultMessages = `"messages":[{"role":"user","content":"hi"}]`

func decodeMessages(t *testing.T, body string, betas []string) *perigee.Request {
	t.Helper()
	origin := perigee.Origin{ID: "r", Dialect: perigee.DialectAnthropic, Log: &perigee.CallLog{}, Body: []byte(body),
		Header: http.Header{"Anthropic-Beta": betas, "Anthropic-Version": {"2023-06-01"}}}
	req, _, err := anthropic.DecodeRequest(origin)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return req.WithModel("claude-sonnet-4-6")
}

// ask returns what was sent, the notes, and the error.
func (r *betaRig) ask(t *testing.T, req *perigee.Request, count bool) (sent []string, notes string, err error) {
	t.Helper()
	r.mu.Lock()
	r.sent = nil
	r.mu.Unlock()
	if count {
		_, err = r.upstream.CountTokens(t.Context(), req)
	} else {
		_, err = ask(t.Context(), r.upstream, req)
	}
	var list []string
	for _, n := range req.Log.Notes() {
		list = append(list, n.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent, strings.Join(list, "; "), err
}

const limit = `"max_tokens":9,`

// sentBody is what the provider gets for a request with these betas, and with these members beside the
// limit.
func sentBody(betas, members string) string {
	if !strings.Contains(members, `"messages"`) {
		members = strings.TrimPrefix(members+","+defaultMessages, ",")
	}
	return betas + " {" + limit + members + `,"anthropic_version":"vertex-2023-10-16"}`
}

// Betas that Vertex AI does not have are removed with what belongs to them; a refusal removes more.
func TestBetasAtVertex(t *testing.T) {
	const custom = `{"name":"f","input_schema":{"type":"object"}}`
	for _, test := range []struct {
		name         string
		betas        []string
		members      string
		first, later []string // what the provider gets, at the first call and at the next one
		notes        string
		err          string
	}{
		{name: "none", first: []string{sentBody("", "")}},
		{name: "all of them known there", betas: []string{"interleaved-thinking-2025-05-14, context-1m-2025-08-07", "web-search-2025-03-05"},
			first: []string{sentBody("interleaved-thinking-2025-05-14, context-1m-2025-08-07|web-search-2025-03-05", "")}},
		{name: "with a member", betas: []string{"request-tags-2026-08-21"}, members: `"tags": ["a"],`, first: []string{sentBody("", "")},
			notes: "dropped beta request-tags-2026-08-21; dropped tags"},
		{name: "with another date, among the ones that stay", betas: []string{"context-1m-2025-08-07,mcp-client-2030-01-01", " effort-2025-11-24"},
			members: `"mcp_servers":[{"name":"m"}],"tools":[` + custom + `,{"type":"mcp_toolset","mcp_server_name":"m"}],`,
			first:   []string{sentBody("context-1m-2025-08-07,effort-2025-11-24", `"tools":[`+custom+`]`)},
			notes:   "dropped beta mcp-client-2030-01-01; dropped tool mcp_toolset; dropped mcp_servers"},
		{name: "the first and the only tool", betas: []string{"web-fetch-2025-09-10,code-execution-2025-08-25"},
			members: `"tool_choice":{"type":"auto"},"container":"c","tools":[{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"code_execution_20250825","name":"code_execution"}],`,
			first:   []string{sentBody("", "")},
			notes:   "dropped beta web-fetch-2025-09-10; dropped beta code-execution-2025-08-25; dropped tool web_fetch_20250910; dropped tool code_execution_20250825; dropped tool_choice; dropped container"},
		{name: "tools around one that stays", betas: []string{"advisor-tool-2026-03-01"},
			members: `"tools":[ {"type":"advisor_20260301","name":"advisor"} , ` + custom + `,{"name":"advisor_x","type":"advisor_20260302"}],`,
			first:   []string{sentBody("", `"tools":[ `+custom+`]`)},
			notes:   "dropped beta advisor-tool-2026-03-01; dropped tool advisor_20260301; dropped tool advisor_20260302"},
		{name: "unknown", betas: []string{"new-a-2026-11-01,context-1m-2025-08-07,new-b-2026-11-01"},
			first: []string{sentBody("new-a-2026-11-01,context-1m-2025-08-07,new-b-2026-11-01", ""), sentBody("context-1m-2025-08-07", "")},
			later: []string{sentBody("context-1m-2025-08-07", "")},
			notes: "dropped beta new-a-2026-11-01; dropped beta new-b-2026-11-01"},
		{name: "unknown, with the known member", betas: []string{"task-budgets-2026-03-13,message-threads-2026-08-01"}, members: `"output_config":{"effort":"low","task_budget":{"type":"tokens","total":9}},"thread":{"type":"create"},`,
			first: []string{sentBody("task-budgets-2026-03-13,message-threads-2026-08-01", `"output_config":{"effort":"low","task_budget":{"type":"tokens","total":9}},"thread":{"type":"create"}`), sentBody("", `"output_config":{"effort":"low"}`)},
			later: []string{sentBody("", `"output_config":{"effort":"low"}`)},
			notes: "dropped beta task-budgets-2026-03-13; dropped beta message-threads-2026-08-01; dropped output_config.task_budget; dropped thread"},
		{name: "unknown, with an unknown member", betas: []string{"new-2026-11-01"}, members: `"new":1,`,
			first: []string{sentBody("new-2026-11-01", `"new":1`), sentBody("", `"new":1`), sentBody("", "")},
			later: []string{sentBody("", "")},
			notes: "dropped beta new-2026-11-01; dropped new"},
		{name: "known, with an unknown member", betas: []string{"skills-2025-10-02"}, members: `"new":1,`,
			first: []string{sentBody("", `"new":1`), sentBody("", "")}, later: []string{sentBody("", "")},
			notes: "dropped beta skills-2025-10-02; dropped new"},
		{name: "two unknown members", betas: []string{"new-2026-11-01"}, members: `"new":1,"newer":2,`,
			first: []string{sentBody("new-2026-11-01", `"new":1,"newer":2`), sentBody("", `"new":1,"newer":2`), sentBody("", `"newer":2`)},
			err:   "newer: Extra inputs are not permitted"},
		{name: "an unknown member without a beta", members: `"new":1,`, first: []string{sentBody("", `"new":1`)}, err: "new: Extra inputs are not permitted"},
		{name: "members of messages, and blocks", betas: []string{"mid-conversation-output-config-2026-07-01,mcp-client-2025-11-20"},
			members: `"messages":[{"role":"user","content":"hi","output_config":{"effort":"low"}},{"role":"assistant","content":[{"type":"mcp_tool_use","id":"a","name":"f","server_name":"m","input":{}},{"type":"mcp_tool_result","tool_use_id":"a","content":[]},{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`,
			first: []string{
				sentBody("mid-conversation-output-config-2026-07-01", `"messages":[{"role":"user","content":"hi","output_config":{"effort":"low"}},{"role":"assistant","content":[{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`),
				sentBody("", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`)},
			later: []string{sentBody("", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`)},
			notes: "dropped beta mid-conversation-output-config-2026-07-01; dropped beta mcp-client-2025-11-20; dropped messages[].output_config; dropped block mcp_tool_use; dropped block mcp_tool_result"},
		{name: "thinking without a signature beside a block", betas: []string{"mcp-client-2025-11-20"},
			members: `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"mcp_tool_use","id":"a","name":"f","server_name":"m","input":{}},{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`,
			first:   []string{sentBody("", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Hi."}]},{"role":"user","content":"hi"}]`)},
			notes:   "dropped reasoning of another model; dropped beta mcp-client-2025-11-20; dropped block mcp_tool_use"},
		{name: "marks for the cache", betas: []string{"prompt-caching-scope-2026-01-05"},
			members: `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","scope":"global"}}],`,
			first: []string{sentBody("prompt-caching-scope-2026-01-05", `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","scope":"global"}}]`),
				sentBody("", `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`)},
			later: []string{sentBody("", `"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]`)},
			notes: "dropped beta prompt-caching-scope-2026-01-05; dropped cache_control.scope"},
		{name: "a tool without its beta", members: `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}],`,
			first: []string{sentBody("", `"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]`)}, err: "not supported on Vertex AI"},
	} {
		for _, count := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", test.name, count), func(t *testing.T) {
				r := newBetaRig(t, Members{})
				before := limit
				if count {
					before = ""
				}
				for i, want := range [][]string{test.first, test.later} {
					if want == nil {
						want = test.first
					}
					sent, notes, err := r.ask(t, r.request(t, test.betas, before+test.members), count)
					if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
						t.Fatalf("call %d: %v", i, err)
					}
					if got, want := strings.Join(sent, "\n"), strings.Join(want, "\n"); !sameRequests(got, want, count) {
						t.Errorf("call %d sent\n%s\nwant\n%s", i, got, want)
					}
					if test.err == "" && notes != test.notes {
						t.Errorf("call %d: notes %q, want %q", i, notes, test.notes)
					}
					if test.err != "" {
						break
					}
				}
			})
		}
	}
}

// sameRequests compares requests. A count has the model in place of the limit.
func sameRequests(got, want string, count bool) bool {
	if count {
		want = strings.ReplaceAll(want, " {"+limit, ` {"model":"claude-sonnet-4-6",`)
	}
	return got == want
}

// A strict request is refused, or gets the provider's own error; nothing is removed from it.
func TestBetasOfStrictRequests(t *testing.T) {
	r := newBetaRig(t, Members{})
	for i, want := range []string{"Unexpected value(s) `new-2026-11-01`", "cannot be sent without changes: dropped beta new-2026-11-01"} {
		req := r.request(t, []string{"new-2026-11-01"}, limit)
		req.Strict = true
		sent, _, err := r.ask(t, req, false)
		if err == nil || !strings.Contains(err.Error(), want) || len(sent) != 1-i {
			t.Errorf("call %d: %v, want %s; sent %q", i, err, want, sent)
		}
	}
	req := r.request(t, []string{"request-tags-2026-08-21"}, `"tags":["a"],`)
	req.Strict = true
	if sent, _, err := r.ask(t, req, true); err == nil || len(sent) != 0 {
		t.Errorf("a count: %v, sent %q", err, sent)
	}
}

// A member that every request needs stays, whatever the provider names, and is not forgotten later.
func TestNeededMembersStayWithoutTheirBeta(t *testing.T) {
	for _, member := range []string{"messages", "max_tokens", "system", "anthropic_version"} {
		t.Run(member, func(t *testing.T) {
			var bodies []string
			remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body))
				message := member + ": Extra inputs are not permitted"
				if r.Header.Get("Anthropic-Beta") != "" {
					message = "Unexpected value(s) `new-2026-11-01` for the `anthropic-beta` header."
				}
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, message)
			}))
			defer remote.Close()
			provider := newVertex(config.Upstream{Name: "cloud", URL: remote.URL, Project: "ada", Location: "global"})
			provider.access = openAccess{}
			r := &betaRig{upstream: New(provider, Options{Name: "cloud", URL: remote.URL})}
			defer r.upstream.Close()
			for range 2 {
				_, _, err := r.ask(t, r.request(t, []string{"new-2026-11-01"}, limit+`"system":"s",`), false)
				if err == nil || !strings.Contains(err.Error(), member+": Extra inputs") {
					t.Errorf("got %v", err)
				}
			}
			if len(bodies) != 3 || bodies[1] != bodies[0] || bodies[2] != bodies[0] {
				t.Errorf("sent %q", bodies)
			}
		})
	}
}

// Members that the configuration adds go with their beta, too, and without a note.
func TestConfiguredMembersOfBetas(t *testing.T) {
	r := newBetaRig(t, Members{Set: map[string]json.RawMessage{"tags": json.RawMessage(`["x"]`)}})
	sent, notes, err := r.ask(t, r.request(t, []string{"request-tags-2026-08-21"}, limit), false)
	if err != nil || strings.Join(sent, "\n") != sentBody("", "") || notes != "dropped beta request-tags-2026-08-21" {
		t.Errorf("%v; sent %q; notes %q", err, sent, notes)
	}
}

// All of fifty calls at once succeed, and the next one needs one request.
func TestBetasOfManyCalls(t *testing.T) {
	r := newBetaRig(t, Members{})
	var calls sync.WaitGroup
	for i := range 50 {
		req := r.request(t, []string{"new-2026-11-01", fmt.Sprintf("new-%d-2026-11-01", i%5)}, limit+`"new":1,`)
		calls.Go(func() {
			if _, err := ask(t.Context(), r.upstream, req); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	await.Return(t, calls.Wait, "fifty calls")
	if sent, _, err := r.ask(t, r.request(t, []string{"new-2026-11-01"}, limit+`"new":1,`), false); err != nil || len(sent) != 1 {
		t.Errorf("afterwards: %v, sent %q", err, sent)
	}
}

// What is remembered is bounded.
func TestBetaFilterIsBounded(t *testing.T) {
	f := &betaFilter{}
	req := &perigee.Request{Model: "m"}
	for i := range 3 * maxBetaUses {
		f.learn(req, false, []string{fmt.Sprintf("a-%d", i), strings.Repeat("long", maxNamed)})
		f.learn(req, false, []string{"b"}, fmt.Sprintf("member_%d", i), strings.Repeat("m", maxNamed+1))
	}
	if n := len(f.refused); n == 0 || n > maxBetaUses {
		t.Errorf("%d uses", n)
	}
	members := f.refused[betaUse{"b", "m", false}]
	if n := len(members); n == 0 || n > maxBetaMembers || len(cmp.Or(members...)) > maxNamed {
		t.Errorf("members %q", members)
	}
}
