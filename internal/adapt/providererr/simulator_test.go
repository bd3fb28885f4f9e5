package providererr

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/simulator"
	simulated "perigee/internal/simulator/rules"
)

// faultKinds is what the simulator's faults are to be taken for; those that are no answer with an
// error in it are not for this package.
var faultKinds = map[string]struct {
	kind  Kind
	delay time.Duration
}{
	"internal_500":         {KindUnavailable, 0},
	"unavailable_503":      {KindUnavailable, 0},
	"deadline_504":         {KindUnavailable, 0},
	"bad_gateway_html":     {KindUnavailable, 0},
	"array_error":          {KindUnavailable, 0},
	"unauthorized":         {KindUnauthenticated, 0},
	"invalid_grant":        {KindUnauthenticated, 0}, // as the gateway says it; see TestSimulatorTokenErrors
	"validation_required":  {KindVerification, 0},
	"banned":               {KindBan, 0},
	"forbidden":            {KindForbidden, 0},
	"service_disabled":     {KindProject, 0},
	"not_found":            {KindNotFound, 0},
	"version_too_old":      {KindNotFound, 0}, // nothing in it tells them apart
	"capacity":             {KindCapacity, 0},
	"capacity_429":         {KindCapacity, 0},
	"overloaded_529":       {KindCapacity, 0},
	"rate_limit":           {KindRate, 479417207},
	"quota_exhausted":      {KindQuota, time.Hour + 16*time.Minute + 667923083},
	"bare_429":             {KindUnexplained, 0},
	"insufficient_credits": {KindCredits, 0},
	"insufficient_quota":   {KindQuota, 0},
	"payment_402":          {KindForbidden, 0}, // which Google's APIs do not send
	"timeout_408":          {KindUnavailable, 0},
	"too_large_413":        {KindTooLarge, 0},
	"too_long":             {KindPromptTooLong, 0},
}

const gateway = "https://cloudcode-pa.googleapis.com"

// provider is a simulator with one thing wrong, and a client that is signed in to it.
func provider(t *testing.T, script simulator.Script) (ask func(path string, body string) (*http.Response, []byte)) {
	t.Helper()
	server, err := simulator.New(simulator.Options{Script: &script, Seed: "diagnosis", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: server.Transport()}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
	})
	token := ""
	send := func(address, contentType, body string) (*http.Response, []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("User-Agent", "antigravity/99.0.0 linux/amd64 perigee/test")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, got
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"sim-refresh-ada"}, "client_id": {"c"}, "client_secret": {"s"}}
	return func(path, body string) (*http.Response, []byte) {
		t.Helper()
		if path == "/token" {
			return send("https://oauth2.googleapis.com/token", "application/x-www-form-urlencoded", body)
		}
		if _, granted := send("https://oauth2.googleapis.com/token", "application/x-www-form-urlencoded", form.Encode()); token == "" {
			token = objectOf(granted).text("access_token")
		}
		return send(gateway+path, "application/json", body)
	}
}

const question = `{"project":"sim-project-ada","model":"gemini-3-flash","request":{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}]}}`

func TestSimulatorFaults(t *testing.T) {
	for name, want := range faultKinds {
		t.Run(name, func(t *testing.T) {
			ask := provider(t, simulator.Script{Faults: []simulator.Fault{{Do: name, When: simulator.When{Path: "v1internal"}}}})
			response, body := ask("/v1internal:streamGenerateContent?alt=sse", question)
			v := Classify(response.StatusCode, response.Header, body, now)
			if v.Kind != want.kind || v.Delay != want.delay {
				t.Errorf("%s by rule %q after %s: %s", v.Kind, v.Rule, v.Delay, body)
			}
			if (v.Link != "") != (want.kind == KindVerification) {
				t.Errorf("link %q", v.Link)
			}
		})
	}
	answers := []string{"hang", "reset", "hang_after_headers", "error_mid_stream", "error_in_200", "empty_200", "late_usage", "no_finish", "split_utf8",
		"missing_newline", "lf_only", "crlf", "slow", "slow_load", "cumulative_thoughts", "missing_args", "invalid_json_chunk",
		"duplicate_finish", "usage_missing", "comments_only", "gzip"}
	for _, name := range simulator.FaultNames() {
		if _, known := faultKinds[name]; !known && !slices.Contains(answers, name) {
			t.Errorf("nobody has thought about the simulator's fault %s", name)
		}
	}
}

func TestSimulatorErrorsInSuccess(t *testing.T) {
	diagnose := func(t *testing.T, fault string) (diagnoses []Diagnosis) {
		t.Helper()
		ask := provider(t, simulator.Script{Faults: []simulator.Fault{{Do: fault, AfterChunks: 1, When: simulator.When{Path: "v1internal"}}}})
		response, body := ask("/v1internal:streamGenerateContent?alt=sse", question)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", response.StatusCode, body)
		}
		var said strings.Builder
		for line := range strings.Lines(string(body)) {
			data, found := strings.CutPrefix(line, "data: ")
			if !found {
				continue
			}
			if v, ok := ClassifyStreamError([]byte(data), now); ok {
				diagnoses = append(diagnoses, v)
			}
			var chunk struct {
				Response struct {
					Candidates []struct {
						Content struct{ Parts []struct{ Text string } }
					}
				}
			}
			if err := json.Unmarshal([]byte(data), &chunk); err == nil {
				for _, candidate := range chunk.Response.Candidates {
					for _, part := range candidate.Content.Parts {
						said.WriteString(part.Text)
					}
				}
			}
		}
		if v, ok := ClassifyText(said.String()); ok {
			diagnoses = append(diagnoses, v)
		}
		return diagnoses
	}
	for fault, want := range map[string]Kind{"error_mid_stream": KindUnavailable, "error_in_200": KindVersion, "late_usage": "", "no_finish": "", "invalid_json_chunk": ""} {
		t.Run(fault, func(t *testing.T) {
			got := diagnose(t, fault)
			if len(got) > 1 || (want != "") != (len(got) == 1) || want != "" && got[0].Kind != want {
				t.Errorf("%+v, want %s", got, want)
			}
		})
	}
}

func TestSimulatorTokenErrors(t *testing.T) {
	for _, shape := range []string{"oauth", "google"} {
		ask := provider(t, simulator.Script{OAuthErrors: shape})
		tests := map[string]Kind{
			"grant_type=refresh_token&refresh_token=gone&client_id=c&client_secret=s":       KindSignedOut,
			"grant_type=refresh_token&refresh_token=gone&client_id=c":                       KindOAuthClient,
			"grant_type=authorization_code&code=gone&client_id=c&client_secret=s":           KindSignedOut,
			"grant_type=password&refresh_token=sim-refresh-ada&client_id=c&client_secret=s": KindOAuthClient,
		}
		for form, want := range tests {
			response, body := ask("/token", form)
			if v := Classify(response.StatusCode, response.Header, body, now); v.Kind != want {
				t.Errorf("%s: %s by rule %q: %s", form, v.Kind, v.Rule, body)
			}
		}
	}
}

// refusalKinds are the rules of the simulator whose words say more than that a request is bad.
var refusalKinds = map[Kind][]string{
	KindUnknownField:  {"envelope.unknown_name", "request.unknown_name", "claude.cache_control"},
	KindSchemaKeyword: {"request.list_for_singular", "tools.two_schemas", "tools.schema_required", "tools.schema_items", "tools.claude_empty_schema"},
	KindEmptyContent:  {"contents.missing", "contents.empty_parts", "contents.part_data", "claude.empty_text"},
	KindToolPairing: {"contents.call_role", "contents.response_role", "gemini.response_count", "gemini.response_unexpected", "gemini.response_id",
		"gemini.response_name", "claude.call_id_twice", "claude.result_missing", "claude.result_unexpected"},
	KindThinkingBudget: {"config.max_output", "config.level_and_budget", "config.level_unknown", "config.level_unsupported", "config.budget_zero",
		"config.budget_dynamic", "config.budget_range", "config.budget_claude_minimum", "config.budget_below_max"},
	KindBadSignature: {"claude.signature_missing", "claude.signature_invalid", "gemini.signature_missing", "gemini.sentinel_sibling",
		"gemini.signature_corrupted", "gemini.signature_foreign"},
	KindThinkingOrder:    {"claude.thinking_order", "claude.thinking_first"},
	KindThinkingDisabled: {"claude.thinking_disabled"},
	KindPrefill:          {"claude.trailing_model"},
	KindPromptTooLong:    {"context.too_long"},
}

// TestSimulatorRefusals reads every sentence with which the simulator refuses a request.
func TestSimulatorRefusals(t *testing.T) {
	want := map[string]Kind{}
	for kind, names := range refusalKinds {
		for _, name := range names {
			want[name] = kind
		}
	}
	for _, rule := range simulated.Table() {
		kind := cmp.Or(want[rule.Name], KindBadRequest)
		delete(want, rule.Name)
		body, err := json.Marshal(map[string]any{"error": map[string]any{"code": 400, "message": rule.Text, "status": "INVALID_ARGUMENT"}})
		if err != nil {
			t.Fatal(err)
		}
		if v := Classify(400, nil, body, now); v.Kind != kind {
			t.Errorf("%s: %s by rule %q, want %s: %s", rule.Name, v.Kind, v.Rule, kind, rule.Text)
		}
	}
	for name := range want {
		t.Errorf("the simulator has no rule %s", name)
	}
}
