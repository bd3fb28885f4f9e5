package antigravity

import (
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// Whatever happens after the first byte of an answer, nothing is asked again, and the caller hears
// of one answer only.
func TestNothingIsAskedAgainAfterTheFirstByte(t *testing.T) {
	for name, broken := range map[string]func() *http.Response{
		"cut off":   func() *http.Response { return events(beginning) },
		"garbage":   func() *http.Response { return events(beginning, "garbage") },
		"no object": func() *http.Response { return events(beginning, "null") },
		"overloaded": func() *http.Response {
			return events(beginning, `{"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}}`)
		},
		"out of quota": func() *http.Response {
			return events(beginning, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota will reset after 1s"}}`)
		},
		"token refused": func() *http.Response {
			return events(beginning, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no"}}`)
		},
		"what is repaired": func() *http.Response {
			return events(beginning, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Corrupted thought signature."}}`)
		},
		"connection lost": func() *http.Response {
			r := events()
			r.Body = io.NopCloser(io.MultiReader(events(beginning).Body, iotestErr{}))
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, repaired := range []bool{false, true} {
				u, p, l := asking(t, func(attempt int, _ string) *http.Response {
					if repaired && attempt == 1 {
						return refusal(400, "INVALID_ARGUMENT", "Corrupted thought signature.")
					}
					return broken()
				})
				l.most = 10
				heard := hear(t, u, prompt(t, "claude-opus-4-6-thinking", loop))
				want := 1
				if repaired {
					want = 2
				}
				if len(p.bodies) != want || strings.Count(heard, "start") != 1 || strings.Count(heard, "so far") != 1 || strings.Count(heard, "error ") != 1 {
					t.Errorf("repaired %v: %d requests, heard %s", repaired, len(p.bodies), heard)
				}
			}
		})
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// One request of a client's causes a limited number of requests, whatever the provider does and
// however many accounts there are.
func TestAttemptsAreLimited(t *testing.T) {
	const tooManyStates = "The specified schema produces a constraint that has too many states for serving."
	for name, answer := range map[string]func(int, string) *http.Response{
		"no token is taken":        func(int, string) *http.Response { return refusal(401, "UNAUTHENTICATED", "no") },
		"nobody has the model":     func(int, string) *http.Response { return refusal(404, "NOT_FOUND", "no") },
		"everybody is out":         func(int, string) *http.Response { return refusal(429, "RESOURCE_EXHAUSTED", "exhausted your capacity") },
		"overloaded":               func(int, string) *http.Response { return refusal(503, "UNAVAILABLE", "overloaded") },
		"answers without anything": func(int, string) *http.Response { return events(saying(``)) },
		"every schema is refused":  func(int, string) *http.Response { return refusal(400, "INVALID_ARGUMENT", tooManyStates) },
		"searches without end": func(_ int, body string) *http.Response {
			if isSearch(body) {
				return refusal(429, "RESOURCE_EXHAUSTED", "exhausted your capacity")
			}
			return events(saying(strings.Repeat(`{"functionCall":{"name":"google_search","args":{"query":"a"}}},`, 499) + `{"functionCall":{"name":"google_search","args":{"query":"a"}}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, p, l := asking(t, answer)
			l.most = 1000
			heard := hear(t, u, prompt(t, "gemini-3-flash", canSearch))
			if len(p.bodies) > maxAttempts || !strings.Contains(heard, "error ") && !strings.HasSuffix(heard, "finish STOP") {
				t.Errorf("%d requests, heard %s", len(p.bodies), heard)
			}
		})
	}
}

// What is held back until an answer says something does not grow without end.
func TestLittleIsHeldBack(t *testing.T) {
	for name, chunk := range map[string]string{
		"seals":         `{"response":{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"seal"}]}}]}}`,
		"empty chunks":  `{"response":{}}`,
		"running usage": `{"response":{"usageMetadata":{"promptTokenCount":2}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			stream := &repeated{chunk: "data: " + chunk + "\n\n", times: 20_000}
			u, _, _ := asking(t, func(int, string) *http.Response {
				r := events()
				r.Body = io.NopCloser(stream)
				return r
			})
			req := prompt(t, "gemini-3-flash", user("hi"))
			req.Dialect = perigee.DialectGemini // whose clients get all chunks
			for range u.Stream(t.Context(), req) {
				break // at the first sign of life
			}
			if read := 20_000 - stream.times; read > 2000 {
				t.Errorf("%d chunks were held back", read)
			}
		})
	}
	t.Run("usage", func(t *testing.T) {
		a := answer{call: &call{}}
		for i := range 10_000 {
			a.hold(perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: int64(i)}})
		}
		if held := a.held.All(); len(held) != 1 || held[0].Usage.Input != 9999 {
			t.Errorf("%d events are held, the first with %+v", len(held), held[0].Usage)
		}
	})
}

// A long answer costs as much as it is long, also where it may have to be sent back.
func TestLongAnswersBesideSearchAreLinear(t *testing.T) {
	const chunks = 20_000
	chunk := `{"response":{"candidates":[{"content":{"parts":[{"text":"` + strings.Repeat("x", 50) + `"}]}}]}}`
	u, _, _ := asking(t, func(int, string) *http.Response {
		r := events()
		r.Body = io.NopCloser(io.MultiReader(&repeated{chunk: "data: " + chunk + "\n\n", times: chunks}, events(saying(`{"text":"."}`)).Body))
		return r
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	length := 0
	for ev, err := range u.Stream(t.Context(), prompt(t, "gemini-3-flash", canSearch)) {
		if err != nil {
			t.Fatal(err)
		}
		length += len(ev.Text)
	}
	runtime.ReadMemStats(&after)
	if spent := (after.TotalAlloc - before.TotalAlloc) >> 20; length != 50*chunks+1 || spent > 200 {
		t.Errorf("%d MB for an answer of %d bytes", spent, length)
	}
}

// An answer with status 200 that is no stream is an error that says what it is.
func TestAnswersThatAreNoStreams(t *testing.T) {
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json; charset=UTF-8", `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You have exhausted your capacity on this model."}}`, "error exhausted: the account has used up its quota for this model"},
		{"text/html", "<html><title>Sign in to the hotel's network</title></html>", "error unavailable: the provider sent an invalid answer"},
	} {
		u, p, _ := asking(t, func(int, string) *http.Response { return reply(200, c.contentType, c.body) })
		if heard := hear(t, u, prompt(t, "gemini-3-flash", user("hi"))); heard != c.want || len(p.bodies) > 3 {
			t.Errorf("%s: %d requests, heard %s", c.contentType, len(p.bodies), heard)
		}
	}
}

// A provider that repeats the token it was given, and errors that name an account, tell the client
// neither.
func TestErrorsKeepSecrets(t *testing.T) {
	const said = "Header Bearer an-access-token is bad: an-access-token"
	for name, answer := range map[string]func() *http.Response{
		"refusal":     func() *http.Response { return refusal(403, "PERMISSION_DENIED", said) },
		"no stream":   func() *http.Response { return refusal(200, "PERMISSION_DENIED", said) },
		"first chunk": func() *http.Response { return events(`{"error":{"code":400,"message":"` + said + `"}}`) },
		"later chunk": func() *http.Response { return events(beginning, `{"error":{"code":400,"message":"`+said+`"}}`) },
	} {
		u, _, _ := asking(t, func(int, string) *http.Response { return answer() })
		var last error
		for _, err := range u.Stream(t.Context(), prompt(t, "gemini-3-flash", user("hi"))) {
			last = err
		}
		if last == nil || strings.Contains(last.Error(), "an-access-token") || !strings.Contains(last.Error(), "is bad") {
			t.Errorf("%s: %v", name, last)
		}
	}
	u := New(Options{Name: "gravity", Accounts: failing{perigee.Errorf(perigee.ClassUnavailable, "the account ada@example.com is being put away")}})
	for _, err := range u.Stream(t.Context(), prompt(t, "gemini-3-flash", user("hi"))) {
		if err == nil || strings.Contains(err.Error(), "ada") {
			t.Errorf("the client is told: %v", err)
		}
	}
}

// The reader of an answer may panic: every account is given back.
func TestAccountsComeBack(t *testing.T) {
	t.Run("panic", func(t *testing.T) {
		u, _, l := asking(t, func(int, string) *http.Response { return events(beginning, saying(`{"text":"."}`)) })
		func() {
			defer func() { _ = recover() }()
			for range u.Stream(t.Context(), prompt(t, "gemini-3-flash", user("hi"))) {
				panic("the client's connection is gone")
			}
		}()
		if l.leases != 1 || !slices.Equal(l.diagnoses, []providererr.Kind{kindCanceled}) {
			t.Errorf("lent %d times, and back with %q", l.leases, l.diagnoses)
		}
	})
}

// A strict request gets the provider's own error, at once.
func TestStrictRequestsAreNotRepaired(t *testing.T) {
	u, p, _ := asking(t, func(int, string) *http.Response {
		return refusal(400, "INVALID_ARGUMENT", "The specified schema produces a constraint that has too many states for serving.")
	})
	req := prompt(t, "gemini-3-flash", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}]}`)
	req.Strict = true
	if heard := hear(t, u, req); heard != "error invalid: the provider cannot read the schema of a tool" || len(p.bodies) != 1 {
		t.Errorf("%d requests, heard %s", len(p.bodies), heard)
	}
}
