package providererr

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"perigee"
)

var update = flag.Bool("update", false, "rewrite the diagnoses in testdata")

var now = time.Date(2026, 4, 20, 9, 0, 0, 0, time.UTC)

const diagnosesFile = "testdata/diagnoses.txtar"

// An answer is one entry of diagnosesFile.
type answer struct {
	kind   Kind
	name   string
	status int
	header http.Header
	body   []byte
}

func readAnswer(t testing.TB, file txtar.File) answer {
	t.Helper()
	kind, _, found := strings.Cut(file.Name, ": ")
	head, body, _ := bytes.Cut(file.Data, []byte("\n\n"))
	line, fields, _ := bytes.Cut(head, []byte("\n"))
	status, err := strconv.Atoi(string(line))
	if err != nil || !found {
		t.Fatalf("%s: want kind and status: %v", file.Name, err)
	}
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(slices.Concat(fields, []byte("\n\n"))))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%s: %v", file.Name, err)
	}
	return answer{Kind(kind), file.Name, status, http.Header(header), bytes.TrimSuffix(body, []byte("\n"))}
}

func readAnswers(t testing.TB) (*txtar.Archive, []answer) {
	t.Helper()
	archive, err := txtar.ParseFile(diagnosesFile)
	if err != nil {
		t.Fatal(err)
	}
	var answers []answer
	for i := 0; i+1 < len(archive.Files); i += 2 {
		answers = append(answers, readAnswer(t, archive.Files[i]))
	}
	return archive, answers
}

func describe(v Diagnosis) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rule: %s\nscope: %s, next host: %t\nclass: %s, status: %d, delay: %s\n", v.Rule, v.Scope, v.NextHost, v.Error.Class, v.Error.Status, v.Delay)
	fmt.Fprintf(&b, "message: %s\nnext: %s\n", v.Error.Message, v.Error.Hint)
	if v.Link != "" {
		fmt.Fprintf(&b, "link: %s\n", v.Link)
	}
	for _, detail := range v.Error.Details {
		fmt.Fprintf(&b, "detail: %s\n", detail)
	}
	return b.String()
}

// TestDiagnoses holds every row of the table against an answer that it is for.
func TestDiagnoses(t *testing.T) {
	archive, answers := readAnswers(t)
	hit := map[string]bool{}
	for i, a := range answers {
		v := Classify(a.status, a.header, a.body, now)
		hit[v.Rule] = true
		if v.Kind != a.kind {
			t.Errorf("%s: is %s by rule %q", a.name, v.Kind, v.Rule)
		}
		want := &archive.Files[2*i+1]
		if *update {
			want.Data = []byte(describe(v))
		} else if got := describe(v); got != string(want.Data) {
			t.Errorf("%s:\n%swant:\n%s", a.name, got, want.Data)
		}
	}
	for _, r := range rules {
		if !hit[r.name] {
			t.Errorf("no answer in %s comes to rule %q", diagnosesFile, r.name)
		}
	}
	if *update {
		if err := os.WriteFile(diagnosesFile, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTables looks for rows that are ambiguous or say nothing.
func TestTables(t *testing.T) {
	names := map[string]bool{}
	used := map[Kind]bool{KindNoToken: true} // AtSignIn leads there
	for _, r := range rules {
		if names[r.name] {
			t.Errorf("two rules are called %q", r.name)
		}
		names[r.name], used[r.kind] = true, true
		for _, text := range r.texts {
			if plain := normalize(text); plain != text {
				t.Errorf("rule %q: %q can never be found, only %q", r.name, text, plain)
			}
		}
	}
	for kind, m := range meanings {
		if m.class == "" || m.scope == "" || m.message == "" || m.hint == "" || !used[kind] {
			t.Errorf("kind %s: %+v, used %t", kind, m, used[kind])
		}
		if m.passes && m.scope == ScopeNone {
			t.Errorf("kind %s passes, but nobody has to wait", kind)
		}
	}
	for kind := range used {
		if _, ok := meanings[kind]; !ok {
			t.Errorf("kind %s has no meaning", kind)
		}
	}
}

// TestEveryTextIsFound sends the pieces of each rule as a message: a rule above it that would catch
// one of them is in its way.
func TestEveryTextIsFound(t *testing.T) {
	for _, r := range rules {
		for _, text := range r.texts {
			status := 400
			if len(r.status) > 0 && r.status[0] > 99 {
				status = r.status[0]
			}
			message := strings.ReplaceAll(text, " … ", " something ")
			if r.under > 0 {
				message += ", reset after 2s"
			}
			v := Classify(status, nil, fmt.Appendf(nil, `{"error":{"message":%q}}`, message), now)
			if v.Rule != r.name {
				t.Errorf("%q comes to rule %q, not to %q", message, v.Rule, r.name)
			}
		}
	}
}

func TestReasonsOutrankStatusAndWords(t *testing.T) {
	for reason, kind := range map[string]Kind{"VALIDATION_REQUIRED": KindVerification, "ACCOUNT_DISABLED": KindBan, "USER_DISABLED": KindBan,
		"QUOTA_EXHAUSTED": KindQuota, "quota_exhausted": KindQuota, "MODEL_CAPACITY_EXHAUSTED": KindCapacity} {
		for _, status := range []int{400, 403, 429, 500, 503} {
			body := fmt.Appendf(nil, `{"error":{"code":%d,"message":"No capacity available, quota exhausted, verify your account","details":[{"a":1},{"reason":%q}]}}`, status, reason)
			if v := Classify(status, nil, body, now); v.Kind != kind {
				t.Errorf("%s with %d: %s by rule %q", reason, status, v.Kind, v.Rule)
			}
		}
	}
}

// TestUnusualBodies are answers whose meaning survives an undocumented shape.
func TestUnusualBodies(t *testing.T) {
	const quota = `{"error":{"code":429,"message":"You have exhausted your capacity on this model.","status":"RESOURCE_EXHAUSTED","details":[{"reason":"QUOTA_EXHAUSTED","metadata":{"quotaResetDelay":"1h2m3.5s"}}`
	tests := []struct {
		name   string
		status int
		body   string
		kind   Kind
		delay  time.Duration
		says   string
	}{
		{"cut off behind the details", 429, quota, KindQuota, time.Hour + 2*time.Minute + 3500*time.Millisecond, "exhausted your capacity"},
		{"cut off inside the message", 429, quota[:76], KindQuota, 0, "You have exhausted your"},
		{"cut off behind a reason", 429, `{"error":{"message":"no","details":[{"reason":"QUOTA_EXHAUSTED`, KindQuota, 0, "no"},
		{"cut off inside a delay", 429, `{"error":{"message":"no","details":[{"retryDelay":"12`, KindUnexplained, 0, "no"},
		{"an OAuth error that is new", 400, `{"error":"brand_new","error_description":"Hm."}`, KindOAuthClient, 0, "brand_new: Hm."},
		{"a code that is not of OAuth", 400, `{"error":"prompt_too_long"}`, KindPromptTooLong, 0, "prompt_too_long"},
		{"an OAuth error cut off", 400, `{"error":"invalid_grant","error_description":"Token`, KindSignedOut, 0, "valid: invalid_grant"},
		{"cut off inside a reason", 429, `{"error":{"message":"no","details":[{"reason":"QUOTA_EXH`, KindUnexplained, 0, "no"},
		{"too large to be read whole", 429, quota + `,{"a":"` + strings.Repeat("x", maxBody) + `"}]}}`, KindQuota, time.Hour + 2*time.Minute + 3500*time.Millisecond, "exhausted"},
		{"bytes that are no text", 429, strings.Replace(quota, "exhausted", "exhausted\xff", 1) + "]}}", KindQuota, time.Hour + 2*time.Minute + 3500*time.Millisecond, "exhausted your"},
		{"a byte order mark", 429, "\ufeff" + quota + "]}}", KindQuota, time.Hour + 2*time.Minute + 3500*time.Millisecond, "exhausted"},
		{"an event", 429, "data: " + quota + "]}}\n\n", KindQuota, time.Hour + 2*time.Minute + 3500*time.Millisecond, "exhausted"},
		{"a list in a list", 500, `[[{"error":{"message":"boo"}}]]`, KindUnavailable, 0, "boo"},
		{"wrong types everywhere", 429, `{"error":{"code":{},"message":["a"],"status":7,"details":[1,null,"x",{"reason":{},"metadata":[],"retryDelay":[],"links":{},"fieldViolations":9}]}}`, KindUnexplained, 0, "status 429, not explained"},
		{"a wrong type beside the reason", 429, `{"error":{"code":[],"message":{},"details":[{"reason":"QUOTA_EXHAUSTED","metadata":"none"}]}}`, KindQuota, 0, "status 429, not explained"},
		{"details that are no list", 429, `{"error":{"message":"hm","details":{"reason":"QUOTA_EXHAUSTED"}}}`, KindUnexplained, 0, "hm"},
		{"two reasons", 429, `{"error":{"message":"hm","message":"hum"}}`, KindUnexplained, 0, "hum"},
		{"no error inside", 400, `{"message":"Prompt is too long"}`, KindPromptTooLong, 0, "Prompt is too long"},
		{"an error that is a sentence", 400, `{"error":"Prompt is too long"}`, KindPromptTooLong, 0, "Prompt is too long"},
		{"plain words", 503, "upstream connect error or disconnect\x1b[31m", KindUnavailable, 0, "upstream connect error or disconnect [31m"},
		{"null", 500, "null", KindUnavailable, 0, "status 500, not explained"},
		{"JSON inside JSON inside JSON", 400, `{"error":{"message":"{\"error\":{\"message\":\"{\\\"error\\\":{\\\"message\\\":\\\"prompt_too_long\\\"}}\"}}"}}`, KindPromptTooLong, 0, "prompt_too_long"},
		{"a list that only looks like an error", 400, `{"error":{"message":"Invalid value at 'x', [\"text\"]"}}`, KindBadRequest, 0, `Invalid value at 'x', ["text"]`},
		{"a violation explains", 400, `{"error":{"message":"Invalid.","details":[{"fieldViolations":[{"description":"Prompt is too long"}]}]}}`, KindPromptTooLong, 0, "Invalid."},
		{"deep", 500, strings.Repeat(`{"error":`, 9000) + "1" + strings.Repeat("}", 9000), KindUnavailable, 0, "status 500, not explained"},
		{"deeper than JSON may be", 500, strings.Repeat(`[`, 200000), KindUnavailable, 0, "status 500, not explained"},
		{"deep delay", 429, `{"error":{"details":[{"retryDelay":` + strings.Repeat(`{"seconds":`, 9000) + "1" + strings.Repeat("}", 9000) + `}]}}`, KindUnexplained, 0, "status 429"},
		{"a status inside a success", 200, `{"error":{"status":"RESOURCE_EXHAUSTED","message":"x"}}`, KindUnexplained, 0, "x"},
		{"the status of the line counts", 503, `{"error":{"code":400,"message":"x"}}`, KindUnavailable, 0, "x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := Classify(test.status, nil, []byte(test.body), now)
			if v.Kind != test.kind || v.Delay != test.delay || !strings.Contains(v.Error.Message, test.says) {
				t.Errorf("%s by %q after %s: %s", v.Kind, v.Rule, v.Delay, v.Error.Message)
			}
		})
	}
}

// TestWordsInOtherPlaces are messages that mention what a rule looks for and mean something else.
func TestWordsInOtherPlaces(t *testing.T) {
	far := strings.Repeat("far away ", 40)
	tests := map[string]Kind{
		"Expected: a number, found: a string. thinking":                                                           KindBadRequest,
		"tool_use " + far + "tool_result":                                                                         KindBadRequest,
		"Unknown name \"tool_use\" at 'request.tool_result': Cannot find field.":                                  KindUnknownField,
		"Unknown name \"thought_signature\" at 'request.tools[0].function_declarations[0].parameters': Cannot f.": KindSchemaKeyword,
		"Unknown name \"parameters\" at 'request.tools[0]': Cannot find field.":                                   KindUnknownField,
		"this call's invalid_grant is a word":                                                                     KindBadRequest,
		"You exceeded your rate limit":                                                                            KindBadRequest,
	}
	for message, kind := range tests {
		if v := Classify(400, nil, fmt.Appendf(nil, `{"error":{"message":%q}}`, message), now); v.Kind != kind {
			t.Errorf("%s: %s by rule %q", message, v.Kind, v.Rule)
		}
	}
}

func TestStreamErrors(t *testing.T) {
	tests := []struct {
		data   string
		kind   Kind // "" is no error
		status int
	}{
		{`{"error":{"code":500,"message":"Internal error encountered.","status":"INTERNAL"}}`, KindUnavailable, 500},
		{`{"error":{"message":"No.","status":"RESOURCE_EXHAUSTED","details":[{"reason":"RATE_LIMIT_EXCEEDED"}]}}`, KindRate, 429},
		{`{"response":{"error":{"code":503,"message":"x"}}}`, KindUnavailable, 503},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, KindCapacity, 529},
		{`{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}`, KindUnexplained, 429},
		{`[{"error":{"code":404,"message":"Requested entity was not found."}}]`, KindNotFound, 404},
		{`{"error":{"message":"Out of words."}}`, KindOther, 0},
		{`{"error":null,"response":{}}`, "", 0},
		{`{"response":{"candidates":[{"content":{"parts":[{"text":"{\"error\":{\"code\":500}}"}]}}]},"traceId":"a"}`, "", 0},
		{`{"response":{"candidates":[{"finishMessage":"message","content":{"parts":[{"functionCall":{"name":"f","args":{"error":{"message":"x"}}}}]}}]}}`, "", 0},
		{`{"response": {"candidates": [`, "", 0},
		{`{"response":{"candidates":[{"content":{"parts":[{"text":"` + strings.Repeat("x", maxBody) + `","message":"reason","error":{"message":"x"}}]}}]}}`, "", 0},
		{`{"error": {"code": 500, "message": "cut`, "", 0},
		{`[DONE]`, "", 0},
		{``, "", 0},
	}
	for _, test := range tests {
		v, ok := ClassifyStreamError([]byte(test.data), now)
		if ok != (test.kind != "") || v.Kind != test.kind || ok && v.Error.Status != test.status {
			t.Errorf("%.200s: %t, %+v", test.data, ok, v)
		}
	}
}

func TestRefusalsInTheWordsOfTheModel(t *testing.T) {
	refusals := []string{
		"This version of Antigravity is no longer supported. Please update to receive the latest features!",
		"\nYour current version of Antigravity is out of date. Please visit https://antigravity.google/download to download and install the latest version.",
	}
	for _, text := range refusals {
		v, ok := ClassifyText(text)
		if !ok || v.Kind != KindVersion || v.Scope != ScopeNone || v.Error.Class != perigee.ClassIdentity || !strings.Contains(v.Error.Hint, "client_version") {
			t.Errorf("%s: %t, %+v", text, ok, v)
		}
	}
	answers := []string{"", "hello",
		"The message \"This version of Antigravity is no longer supported\" means that you should update.",
		refusals[0] + " is what the program prints when " + strings.Repeat("a long story ", 20),
		"Prompt is too long", "You have exhausted your capacity on this model."}
	for _, text := range answers {
		if v, ok := ClassifyText(text); ok {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// Where no model was asked, only what is about the sign-in is taken at its word.
func TestWhatTheSignInServerSaysIsNotAboutModels(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		header string // Retry-After
		body   string
		kind   Kind
		retry  time.Duration
	}{
		{"a quota that is back in an hour", 429, "4561", `{"error":{"code":429,"details":[{"reason":"QUOTA_EXHAUSTED"},{"retryDelay":"4560.6s"}]}}`, KindNoToken, SignInPause},
		{"a quota that it refuses with", 403, "", `{"error":{"details":[{"reason":"RATE_LIMIT_EXCEEDED"}]}}`, KindNoToken, SignInPause},
		{"a pause of its own", 503, "20", `{"error":"temporarily_unavailable"}`, KindNoToken, 20 * time.Second},
		{"a lost account in an answer that it could not make", 500, "", `{"error":{"details":[{"reason":"USER_DISABLED"}]}}`, KindNoToken, SignInPause},
		{"no such page", 404, "", `<html><title>Not Found</title></html>`, KindNoToken, SignInPause},
		{"a request that it cannot read", 400, "", `{"error":{"code":400,"message":"prompt is too long"}}`, KindNoToken, SignInPause},
		{"a token that was revoked", 400, "", `{"error":"invalid_grant"}`, KindSignedOut, 0},
		{"a client that it does not know", 401, "", `{"error":"invalid_client"}`, KindOAuthClient, 0},
		{"an account that was disabled", 403, "", `{"error":{"details":[{"reason":"USER_DISABLED"}]}}`, KindBan, 0},
	} {
		header := http.Header{}
		if test.header != "" {
			header.Set("Retry-After", test.header)
		}
		v := Classify(test.status, header, []byte(test.body), now).AtSignIn(now)
		if v.Kind != test.kind || v.Error.Retry != test.retry {
			t.Errorf("%s: %s, retry after %s; want %s, %s", test.name, v.Kind, v.Error.Retry, test.kind, test.retry)
		}
		if v.Kind == KindNoToken && (v.Error.Class != perigee.ClassUnavailable || v.Error.Status != 0 || v.Error.Details != nil || v.Delay != 0) {
			t.Errorf("%s: %+v, %+v", test.name, v, v.Error)
		}
	}
}

func TestUnexplainedRefusalWithQuotaLeftIsOfTheClient(t *testing.T) {
	bare := Classify(429, nil, []byte(`{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}`), now)
	v := bare.WithQuotaLeft()
	if v.Kind != KindIdentity || v.Scope != ScopeNone || v.Error.Class != perigee.ClassIdentity ||
		!strings.HasPrefix(v.Error.Message, meanings[KindIdentity].message) || !strings.Contains(v.Error.Message, "check quota") || v.Error.Hint == bare.Error.Hint {
		t.Errorf("%+v: %v", v, v.Error)
	}
	if bare.Error.Class != perigee.ClassRateLimited {
		t.Errorf("the diagnosis it was made of has changed: %+v", bare.Error)
	}
	quota := Classify(429, nil, []byte(`{"error":{"details":[{"reason":"QUOTA_EXHAUSTED"}]}}`), now)
	if got := quota.WithQuotaLeft(); got.Kind != KindQuota || got.Error != quota.Error {
		t.Errorf("a quota that is explained: %+v", got)
	}
}

// TestStatusesAboutHTTPAreNotPassedOn: what a proxy refuses about perigee's own request is not the
// client's error.
func TestStatusesAboutHTTPAreNotPassedOn(t *testing.T) {
	for status, want := range map[int]int{405: 0, 408: 0, 415: 0, 426: 0, 431: 0, 400: 400, 413: 413, 500: 500, 504: 504} {
		if v := Classify(status, nil, nil, now); v.Error.Status != want {
			t.Errorf("%d becomes %d", status, v.Error.Status)
		}
	}
}

// TestEveryStatusHasAClass also holds what a status says when nothing else does.
func TestEveryStatusHasAClass(t *testing.T) {
	seen := map[perigee.Class]bool{}
	for status := range 700 {
		v := Classify(status, nil, nil, now)
		seen[v.Error.Class] = true
		if v.Error.Class == "" || v.Error.Hint == "" || v.Scope == ScopeAccount && status != 401 {
			t.Errorf("%d: %+v", status, v)
		}
	}
	want := []perigee.Class{perigee.ClassCapacity, perigee.ClassForbidden, perigee.ClassInvalid, perigee.ClassNotFound,
		perigee.ClassRateLimited, perigee.ClassUnauthenticated, perigee.ClassUnavailable, perigee.ClassUnimplemented}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("classes %v, want %v", got, want)
	}
}

// What a client has sent and the provider quotes when it refuses it costs no account anything.
func TestQuotedWordsAreNotTheProviders(t *testing.T) {
	for _, message := range []string{
		`Unsupported MIME type: {"error":{"code":403,"message":"x","details":[{"reason":"TOS_VIOLATION"}]}}`,
		`Unsupported MIME type: {"error":{"code":403,"message":"x","details":[{"reason":"VALIDATION_REQUIRED","metadata":{"validation_url":"https://accounts.google.com/x"}}]}}`,
		`Unsupported MIME type: {"error":"invalid_grant"}`,
		`Unsupported MIME type: {"error":{"message":"invalid_grant: bad"}}`,
		`Unsupported MIME type: [{"error":{"message":"Token has been revoked"}}]`,
		`Unsupported MIME type: {"error":{"code":429,"message":"x","details":[{"reason":"QUOTA_EXHAUSTED"},{"retryDelay":"600000s"}]}}`,
		`Invalid value at 'request.safety_settings[0].category' (TYPE_ENUM), "token has been revoked"`,
		`Invalid value at 'request.safety_settings.category' (TYPE_ENUM), "invalid project resource name"`,
		`"token has been revoked" is no category`,
	} {
		quoted, _ := json.Marshal(message)
		body := `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":` + string(quoted) + `}}`
		if v := Classify(400, nil, []byte(body), now); v.Kind != KindBadRequest || v.Scope != ScopeRequest || v.Link != "" || v.Delay != 0 {
			t.Errorf("%s: is %s by rule %q, of scope %s, for %v", message, v.Kind, v.Rule, v.Scope, v.Delay)
		}
	}
}
