package simulator

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"perigee/internal/testing/perigeetest/await"
)

// faultCase is how one fault looks to a client over TCP.
type faultCase struct {
	fault  Fault
	prompt string // default: a text in three chunks
	status int
	want   []string // fragments of the body, of a stream in order
	check  func(t *testing.T, a answer)
}

const (
	threeChunks = "[[text: abc]][[chunks: 3]][[usage: last]]"
	oneCall     = `[[call: f {"a":"b"}]]`
)

func statusCase(do string, status int, want ...string) faultCase {
	return faultCase{fault: Fault{Do: do}, status: status, want: want}
}

var faultCases = []faultCase{
	statusCase("internal_500", 500, `"Internal error encountered."`, `"INTERNAL"`),
	statusCase("unavailable_503", 503, `"The service is currently unavailable."`, `"UNAVAILABLE"`),
	statusCase("deadline_504", 504, `"DEADLINE_EXCEEDED"`),
	statusCase("bad_gateway_html", 502, "<!DOCTYPE html>", "Error 502"),
	statusCase("array_error", 500, `[{"error":{`, `"INTERNAL"`, `}}]`),
	statusCase("unauthorized", 401, `"UNAUTHENTICATED"`),
	statusCase("invalid_grant", 401, `"UNAUTHENTICATED"`),
	statusCase("validation_required", 403, `"VALIDATION_REQUIRED"`, `"links"`),
	statusCase("banned", 403, `"ACCOUNT_DISABLED"`, "violation of Terms of Service"),
	statusCase("forbidden", 403, `"The caller does not have permission"`),
	statusCase("service_disabled", 403, `"SERVICE_DISABLED"`),
	statusCase("not_found", 404, `"Requested entity was not found."`),
	statusCase("version_too_old", 404, `"Requested entity was not found."`),
	statusCase("capacity", 503, `"MODEL_CAPACITY_EXHAUSTED"`, `"No capacity available for model gemini-3-flash on the server"`, `"UNAVAILABLE"`),
	statusCase("capacity_429", 429, `"MODEL_CAPACITY_EXHAUSTED"`, `"RESOURCE_EXHAUSTED"`),
	statusCase("overloaded_529", 529, "overloaded"),
	statusCase("rate_limit", 429, `"479.417207ms"`, `"2026-08-01T10:00:00.479417207Z"`, `"RATE_LIMIT_EXCEEDED"`, `"0.479417207s"`, "reset after 0s."),
	statusCase("quota_exhausted", 429, `"1h16m0.667923083s"`, `"2026-08-01T11:16:00.667923083Z"`, `"QUOTA_EXHAUSTED"`, `"4560.667923083s"`, "reset after 1h16m0s."),
	{fault: Fault{Do: "rate_limit", Delay: Duration(2 * time.Second), Message: "slow down"}, status: 429, want: []string{`"2s"`, `"retryDelay":"2s"`, `"slow down"`}},
	{fault: Fault{Do: "bare_429"}, status: 429, want: []string{"Resource has been exhausted (e.g. check quota)."}, check: func(t *testing.T, a answer) {
		if strings.Contains(a.body, "details") {
			t.Errorf("details in %s", a.body)
		}
	}},
	statusCase("timeout_408", 408, `"DEADLINE_EXCEEDED"`),
	statusCase("too_large_413", 413, "Request payload size exceeds the limit"),
	statusCase("too_long", 400, "exceeds the maximum number of tokens allowed"),
	statusCase("payment_402", 402, "no credit left"),
	statusCase("insufficient_quota", 429, "check your plan and billing details"),
	statusCase("insufficient_credits", 429, `"INSUFFICIENT_G1_CREDITS_BALANCE"`),
	{fault: Fault{Do: "error_mid_stream", AfterChunks: 2}, status: 200, want: []string{`"a"`, `"b"`, `data: {"error":{"code":500`}, check: lacks(`"c"`, "finishReason")},
	{fault: Fault{Do: "error_mid_stream"}, status: 200, want: []string{`data: {"error":{"code":500`}, check: lacks(`"a"`)},
	{fault: Fault{Do: "error_in_200"}, status: 200, want: []string{"This version of Antigravity", "supported", `"STOP"`}},
	{fault: Fault{Do: "empty_200"}, status: 200, check: func(t *testing.T, a answer) {
		if a.body != "" || a.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %q", a.header.Get("Content-Type"), a.body)
		}
	}},
	{fault: Fault{Do: "late_usage"}, status: 200, want: []string{`"finishReason":"STOP"`, `"usageMetadata"`}, check: func(t *testing.T, a answer) {
		got := events(t, a.body)
		last := got[len(got)-1].Response
		if len(last.Candidates) != 0 || last.Usage == nil || got[len(got)-2].Response.Usage != nil {
			t.Errorf("usage is not late in %s", a.body)
		}
	}},
	{fault: Fault{Do: "usage_missing"}, status: 200, want: []string{`"finishReason":"STOP"`}, check: lacks("usageMetadata")},
	{fault: Fault{Do: "duplicate_finish"}, status: 200, want: []string{`"finishReason":"STOP"`}, check: func(t *testing.T, a answer) {
		if n := strings.Count(a.body, "finishReason"); n != 2 {
			t.Errorf("%d finish reasons in %s", n, a.body)
		}
	}},
	{fault: Fault{Do: "comments_only", Delay: Duration(10 * time.Millisecond)}, status: 200, want: []string{": keep-alive\r\n\r\n: keep-alive", `"a"`, `"STOP"`}},
	{fault: Fault{Do: "no_finish"}, status: 200, want: []string{`"a"`, `"c"`}, check: lacks("finishReason")},
	{fault: Fault{Do: "missing_newline"}, status: 200, check: func(t *testing.T, a answer) {
		if !strings.HasSuffix(a.body, "}") || said(events(t, a.body)) != "abc" {
			t.Errorf("%q", a.body)
		}
	}},
	{fault: Fault{Do: "lf_only"}, status: 200, want: []string{"}\n\ndata: "}, check: lacks("\r")},
	{fault: Fault{Do: "crlf"}, status: 200, want: []string{"}\r\n\r\ndata: "}},
	{fault: Fault{Do: "cumulative_thoughts"}, prompt: "[[think: xyz]][[text: a]][[chunks: 3]]", status: 200, want: []string{`"text":"x"`, `"text":"xy"`, `"text":"xyz"`}},
	{fault: Fault{Do: "missing_args"}, prompt: oneCall, status: 200, want: []string{`"functionCall":{"name":"f","id":`}, check: lacks("args")},
	{fault: Fault{Do: "invalid_json_chunk", AfterChunks: 1}, status: 200, want: []string{`"a"`, `data: {"response": {"candidates": [` + "\r\n", `"b"`, `"STOP"`}},
}

func lacks(fragments ...string) func(t *testing.T, a answer) {
	return func(t *testing.T, a answer) {
		for _, fragment := range fragments {
			if strings.Contains(a.body, fragment) {
				t.Errorf("%q in %q", fragment, a.body)
			}
		}
	}
}

// streamBody asks for thoughts when the text tells the model to think.
func streamBody(text string) string {
	if !strings.Contains(text, "[[think") {
		return envelopeOf("gemini-3-flash", prompt(text))
	}
	return envelopeOf("gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":`+string(encode(text))+`}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"low"}}}`)
}

func TestFaultsOverTCP(t *testing.T) {
	for _, c := range faultCases {
		t.Run(c.fault.Do, func(t *testing.T) {
			c.fault.Times = 1
			r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{c.fault}}})
			text := c.prompt
			if text == "" {
				text = threeChunks
			}
			a := r.internal("streamGenerateContent?alt=sse", streamBody(text))
			a.want(t, c.status)
			at := 0
			for _, fragment := range c.want {
				next := strings.Index(a.body[at:], fragment)
				if next < 0 {
					t.Fatalf("no %q after %q", fragment, a.body[:at]+"⟨here⟩"+a.body[at:])
				}
				if c.status == 200 {
					at += next
				}
			}
			if c.check != nil {
				c.check(t, a)
			}
			if calls := r.server.Calls(); calls[0].Fault != c.fault.Do || calls[0].Status != c.status {
				t.Errorf("logged as %+v", calls[0])
			}
			again := r.internal("streamGenerateContent?alt=sse", streamBody(threeChunks))
			if again.status != 200 || said(events(t, again.body)) != "abc" {
				t.Errorf("struck more often than once: %d %s", again.status, again.body)
			}
		})
	}
}

func TestEveryFaultIsTested(t *testing.T) {
	tested := []string{"hang", "reset", "hang_after_headers", "slow", "slow_load", "split_utf8", "gzip"} // in tests of their own
	for _, c := range faultCases {
		tested = append(tested, c.fault.Do)
	}
	for _, name := range FaultNames() {
		if !slices.Contains(tested, name) {
			t.Errorf("no test of %s", name)
		}
	}
}

// openStream posts a stream and returns the response with its body open.
func openStream(t *testing.T, r *rig, ctx context.Context) (*http.Response, error) {
	t.Helper()
	request := r.request("POST", "/v1internal:streamGenerateContent?alt=sse", streamBody(threeChunks), "Authorization", "Bearer "+r.token("ada@example.com"))
	return r.client.Do(request.WithContext(ctx))
}

func TestResetCutsTheConnection(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		over := make(overs, 1)
		r := newTCPRig(t, Options{Logger: slog.New(over), Script: &Script{Faults: []Fault{{Do: "reset"}}}})
		response, err := openStream(t, r, t.Context())
		if err == nil {
			response.Body.Close()
			t.Fatal("got an answer")
		}
		if !cutOff(err) {
			t.Errorf("%v", err)
		}
		await.Receive(t, over, "the end of the call") // the connection is gone before the call is in the list
		if call := r.server.Calls()[0]; call.Status != 0 || call.Fault != "reset" {
			t.Errorf("logged as %+v", call)
		}
	})
	t.Run("after two chunks", func(t *testing.T) {
		r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{{Do: "reset", AfterChunks: 2}}}})
		response, err := openStream(t, r, t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if !cutOff(err) {
			t.Errorf("%v", err)
		}
		if n := strings.Count(string(body), "data: "); n > 2 || n < 2 && runtime.GOOS == "linux" {
			t.Errorf("%d chunks: %s", n, body)
		}
	})
}

// overs is a log that tells when a call is over, which is when it is in the list of calls.
type overs chan struct{}

func (o overs) Enabled(context.Context, slog.Level) bool { return true }
func (o overs) WithAttrs([]slog.Attr) slog.Handler       { return o }
func (o overs) WithGroup(string) slog.Handler            { return o }

func (o overs) Handle(_ context.Context, line slog.Record) error {
	if line.Message == "simulated call" {
		o <- struct{}{}
	}
	return nil
}

// cutOff reports whether err is a reset. Only on Linux is it certain to arrive as one, after all
// that was sent before.
func cutOff(err error) bool {
	if runtime.GOOS == "linux" {
		return errors.Is(err, syscall.ECONNRESET)
	}
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

func TestHangLastsUntilTheClientGivesUp(t *testing.T) {
	for _, do := range []string{"hang", "hang_after_headers"} {
		t.Run(do, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: do}}}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				response, err := openStream(t, r, ctx)
				if (do == "hang") != (err != nil) {
					t.Fatalf("%v", err)
				}
				if err == nil {
					defer response.Body.Close()
					if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
						t.Errorf("%d %v", response.StatusCode, response.Header)
					}
					var body []byte
					if body, err = io.ReadAll(response.Body); len(body) > 0 {
						t.Errorf("body %q", body)
					}
				}
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Hour {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				r.server.Close()
			})
		})
	}
}

func TestHangEndsWithItsDelay(t *testing.T) {
	slept := make(chan time.Duration, 1)
	sleep := func(_ context.Context, d time.Duration) error { slept <- d; return nil }
	r := newTCPRig(t, Options{Sleep: sleep, Script: &Script{Faults: []Fault{{Do: "hang", Delay: Duration(time.Minute)}}}})
	response, err := openStream(t, r, t.Context())
	if err == nil {
		response.Body.Close()
	}
	if d := await.Receive(t, slept, "the pause"); !cutOff(err) || d != time.Minute {
		t.Errorf("%v after %v", err, d)
	}
}

func TestSlowWaitsBetweenChunks(t *testing.T) {
	slept := make(chan time.Duration, 10)
	sleep := func(_ context.Context, d time.Duration) error { slept <- d; return nil }
	r := newTCPRig(t, Options{Sleep: sleep, Script: &Script{Faults: []Fault{{Do: "slow", Delay: Duration(time.Second)}}}})
	a := r.internal("streamGenerateContent?alt=sse", envelopeOf("gemini-3-flash", prompt(threeChunks)))
	if a.want(t, 200); len(slept) != 2 || await.Receive(t, slept, "a pause") != time.Second || await.Receive(t, slept, "a pause") != time.Second {
		t.Error("it does not wait a second twice")
	}
}

// Each write of the server becomes one HTTP chunk; some must end inside a character.
func TestSplitUTF8(t *testing.T) {
	r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{{Do: "split_utf8"}}}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := r.request("POST", "/v1internal:streamGenerateContent?alt=sse", streamBody("[[text: abc]]"),
		"Authorization", "Bearer "+r.token("ada@example.com"), "Connection", "close")
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(raw), "\r\n\r\n")
	splits := 0
	for piece := range strings.SplitSeq(body, "\r\n") {
		if !utf8.ValidString(piece) {
			splits++
		}
	}
	if splits < 3 {
		t.Errorf("%d invalid pieces in %q", splits, body)
	}
	if a := r.internal("streamGenerateContent?alt=sse", streamBody("[[text: abc]]")); said(events(t, a.body)) != "abc é漢🙂" {
		t.Errorf("whole: %s", a.body)
	}
}

func TestGzipIsSentUnasked(t *testing.T) {
	r := newTCPRig(t, Options{Script: &Script{Faults: []Fault{{Do: "gzip"}}}})
	for _, method := range []string{"generateContent", "streamGenerateContent?alt=sse"} {
		a := r.internal(method, streamBody(threeChunks), "Accept-Encoding", "identity")
		reader, err := gzip.NewReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatalf("%v: %v %q", err, a.header, a.body)
		}
		body, err := io.ReadAll(reader)
		if err != nil || a.header.Get("Content-Encoding") != "gzip" || !strings.Contains(string(body), `"STOP"`) {
			t.Errorf("%v: %v %q", err, a.header, body)
		}
	}
}

func TestWhenPicksTheCalls(t *testing.T) {
	run := func(when string) (struck string) {
		script, err := LoadScript(strings.NewReader("faults: [{do: internal_500, when: " + when + "}]"))
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Options{Script: script})
		for range 5 {
			if a := r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))); a.status == 500 {
				struck += "x"
			} else {
				struck += "."
			}
		}
		return struck
	}
	for when, want := range map[string]string{
		"{}":        "xxxxx",
		"{call: 3}": "..x..", `{call: "2-4"}`: ".xxx.", `{call: "4-"}`: "...xx",
		"{every: 2}":    ".x.x.",
		"{host: daily}": "xxxxx", "{host: sandbox}": ".....",
		"{model: flash}": "xxxxx", "{model: claude}": ".....",
		"{account: ada}": "xxxxx", "{account: bob}": ".....",
		"{path: /v1internal}": "xxxxx", "{path: /token}": ".....",
		"{method: generateContent}": "xxxxx", "{method: streamGenerateContent}": ".....",
	} {
		if got := run(when); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
}

// A fault strikes at its place in the order of checks, and a request refused before does not use it
// up.
func TestFaultsKeepTheOrderOfChecks(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "quota_exhausted", Times: 1}}}})
	r.internal("generateContent", envelopeOf("gemini-3-flash", `{"contents":[]}`)).want(t, 400)
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 429)
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200)
}

func TestFaultsOfWholeAnswersAndTokens(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{
		{Do: "empty_200", Times: 1}, {Do: "invalid_grant", When: When{Path: "/token"}},
	}}})
	a := r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi")))
	var body struct {
		Response map[string]json.RawMessage `json:"response"`
	}
	if a.decode(t, &body); a.status != 200 || body.Response == nil || len(body.Response) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.form("/token", refreshForm("sim-refresh-ada")).want(t, 400, `"error":"invalid_grant"`)
}

// A fault about streams must not turn other calls into errors.
func TestReplyFaultsLeaveSmallCallsAlone(t *testing.T) {
	for _, name := range FaultNames() {
		if faultKinds[name].stage != stageReply || name == "hang_after_headers" {
			continue
		}
		r := newRig(t, Options{Sleep: func(context.Context, time.Duration) error { return nil }, Script: &Script{Faults: []Fault{{Do: name}}}})
		a := r.internal("loadCodeAssist", "{}")
		if a.want(t, 200); (name == "empty_200") != (strings.TrimSpace(a.body) == "{}") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

func TestTokenFaultsMatchTheAccount(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "invalid_grant", When: When{Account: "bob"}}}}})
	r.form("/token", refreshForm("sim-refresh-ada")).want(t, 200)
	r.form("/token", refreshForm("sim-refresh-bob")).want(t, 400, "invalid_grant")
}
