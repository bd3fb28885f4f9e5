package antigravity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"perigee"
)

// A model that wants to search hundreds of times at once is answered, and searches a few times.
func TestSearchesAreLimited(t *testing.T) {
	u, p, _ := asking(t, func(attempt int, body string) *http.Response {
		if isSearch(body) || strings.Contains(body, "no more searches") {
			return events(saying(`{"text":"found"}`))
		}
		return events(saying(strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"google_search","args":{"query":"a"}}},`, 500), ",")))
	})
	heard := hear(t, u, prompt(t, "gemini-3-flash", canSearch))
	if len(p.bodies) != maxSearches+2 || !strings.HasSuffix(heard, "text found; finish STOP") {
		t.Errorf("%d requests, heard %s", len(p.bodies), heard)
	}
	if n := strings.Count(p.bodies[len(p.bodies)-1], `"functionResponse"`); n != 500 {
		t.Errorf("%d of 500 calls have a result", n)
	}
}

// What a search finds is read up to a limit.
func TestEndlessSearchResult(t *testing.T) {
	stream := &repeated{chunk: "data: " + strings.Replace(beginning, "so far", strings.Repeat("x", 1000), 1) + "\n\n", times: 10_000}
	u, _, _ := asking(t, func(attempt int, body string) *http.Response {
		switch {
		case isSearch(body):
			r := events()
			r.Body = body0{stream}
			return r
		case attempt == 1:
			return events(saying(`{"functionCall":{"name":"google_search","args":{"query":"a"}}}`))
		}
		return events(saying(fmt.Sprintf(`{"text":"%d KB"}`, len(body)>>10)))
	})
	heard := hear(t, u, prompt(t, "gemini-3-flash", canSearch))
	if read := 10_000 - stream.times; read > 400 || !strings.HasSuffix(heard, "finish STOP") {
		t.Errorf("%d KB were read, heard %s", read, heard)
	}
}

type body0 struct{ *repeated }

func (body0) Close() error { return nil }

// What the model says when it searches goes back to it in a form that it accepts: ids that are
// there and differ, arguments that are objects, and seals where they are demanded.
func TestSearchRoundIsPrepared(t *testing.T) {
	for _, c := range []struct{ name, model, said, want string }{
		{"no ids", "claude-opus-4-6-thinking",
			`{"functionCall":{"name":"google_search","args":{"query":"a"}}},{"functionCall":{"name":"google_search","args":{"query":"b"}}}`,
			`{"functionCall":{"id":"call","name":"google_search","args":{"query":"a"}}},{"functionCall":{"id":"call_2","name":"google_search","args":{"query":"b"}}}`},
		{"the same id twice", "claude-opus-4-6-thinking",
			`{"functionCall":{"id":"x","name":"google_search","args":{"query":"a"}}},{"functionCall":{"id":"x","name":"google_search","args":{"query":"b"}}}`,
			`{"functionCall":{"id":"x","name":"google_search","args":{"query":"a"}}},{"functionCall":{"id":"x_2","name":"google_search","args":{"query":"b"}}}`},
		{"no object", "claude-opus-4-6-thinking",
			`{"functionCall":{"id":"x","name":"google_search","args":"go 1.26"}}`,
			`{"functionCall":{"id":"x","name":"google_search","args":{"input":"go 1.26"}}}`},
		{"a thought without a seal", "claude-opus-4-6-thinking",
			`{"text":"hm","thought":true},{"functionCall":{"id":"x","name":"google_search","args":{"query":"a"}}}`,
			`"parts":[{"functionCall":{"id":"x","name":"google_search","args":{"query":"a"}}}]`},
		{"no seal", "gemini-3-flash",
			`{"functionCall":{"name":"google_search","args":{"query":"a"}}}`,
			`{"functionCall":{"name":"google_search","args":{"query":"a"}},"thoughtSignature":"skip_thought_signature_validator"}`},
		{"a seal of its own", "gemini-3-flash",
			`{"text":"let me see: "},{"functionCall":{"name":"google_search","args":{"query":"a"}}},{"text":"","thoughtSignature":"SEAL"}`,
			`{"functionCall":{"name":"google_search","args":{"query":"a"}},"thoughtSignature":"SEAL"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, p, _ := asking(t, func(attempt int, body string) *http.Response {
				if attempt == 1 {
					return events(saying(c.said))
				}
				return events(saying(`{"text":"found"}`))
			})
			heard := hear(t, u, prompt(t, c.model, canSearch))
			if last := p.bodies[len(p.bodies)-1]; !strings.Contains(last, c.want) || !strings.HasSuffix(heard, "found; finish STOP") {
				t.Errorf("sent %s\nheard %s", last, heard)
			}
			if strings.Contains(heard, "signature") {
				t.Errorf("the client hears of a seal whose call it has not seen: %s", heard)
			}
		})
	}
}

// A tool goes into quarantine when the provider has answered without it, and not before; for those
// with the same key.
func TestOnlyWhatHelpedIsQuarantined(t *testing.T) {
	const tools = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[` +
		`{"name":"good","parameters":{"type":"object","properties":{"p":{"type":"string"}}}},{"name":"good","parameters":{"type":"object"}},` +
		`{"name":"bad","parameters":{"type":"object","properties":{"p":{"type":"string"}}}},{"name":"fine","parameters":{"type":"object","properties":{"p":{"type":"string"}}}}]}]}`
	const second = `Invalid JSON payload received. Unknown name "x" at 'request.tools[0].function_declarations[1].parameters': Cannot find field.`
	with := func(key string) *perigee.Request {
		req := prompt(t, "gemini-3-flash", tools)
		req.Client.Key = key
		return req
	}

	refuse := func(string) bool { return true }
	u, p, _ := asking(t, func(_ int, body string) *http.Response {
		if refuse(body) {
			return refusal(400, "INVALID_ARGUMENT", second)
		}
		return events(saying(`{"text":"done"}`))
	})
	if heard := hear(t, u, with("mine")); !strings.Contains(heard, "error invalid") {
		t.Errorf("everything is refused, heard %s", heard)
	}
	// The provider counts the tools that it got, each once: the second is the bad one.
	refuse = func(body string) bool { return strings.Contains(body, `"bad"`) }
	p.bodies = nil
	if heard := hear(t, u, with("mine")); !strings.Contains(heard, "dropped tool bad") || strings.Contains(heard, "dropped tool good") ||
		strings.Contains(heard, "dropped tool fine") || len(p.bodies) > 3 {
		t.Errorf("%d requests, heard %s", len(p.bodies), heard)
	}
	for key, want := range map[string]bool{"mine": true, "another": false} {
		p.bodies = nil
		hear(t, u, with(key))
		if known := !strings.Contains(p.bodies[0], `"bad"`); known != want {
			t.Errorf("key %s: in quarantine %v, want %v", key, known, want)
		}
	}
}

// Where the provider does not say which tool it cannot read, the largest are left out in turn, each
// with the client's own request: nothing is asked that would cost tokens for nothing, no tool is
// lost for a wrong guess, and the guesses are few.
func TestGuessingABadToolCostsNothing(t *testing.T) {
	schema := func(n int) string {
		return `{"type":"object","properties":{"p":{"type":"string","description":"` + strings.Repeat("x", n) + `"}}}`
	}
	tools := `{"contents":[{"role":"user","parts":[{"text":"what is the time?"}]}],"tools":[{"functionDeclarations":[` +
		`{"name":"small","parameters":` + schema(10) + `},{"name":"largest","parameters":` + schema(500) + `},{"name":"large","parameters":` + schema(400) + `},` +
		`{"name":"medium","parameters":` + schema(300) + `},{"name":"tiny","parameters":` + schema(1) + `}]}]}`
	const unnamed = "The specified schema produces a constraint that has too many states for serving."
	for bad, guesses := range map[string]int{"largest": 1, "large": 2, "medium": 3, "small": 0} {
		t.Run(bad, func(t *testing.T) {
			answered := 0
			u, p, _ := asking(t, func(_ int, body string) *http.Response {
				if strings.Contains(body, `"`+bad+`"`) {
					return refusal(400, "INVALID_ARGUMENT", unnamed)
				}
				answered++
				return events(saying(`{"text":"noon"}`))
			})
			heard := hear(t, u, prompt(t, "gemini-3-flash", tools))
			for _, body := range p.bodies {
				if !strings.Contains(body, "what is the time?") {
					t.Errorf("asked something else: %s", body)
				}
			}
			if guesses == 0 {
				if answered > 0 || !strings.Contains(heard, "error invalid") || strings.Contains(heard, "dropped tool") || len(p.bodies) > 1+1+maxGuesses {
					t.Errorf("%d requests, heard %s", len(p.bodies), heard)
				}
				return
			}
			if answered != 1 || strings.Count(heard, "dropped tool") != 1 || !strings.Contains(heard, "dropped tool "+bad) || !strings.Contains(heard, "noon") {
				t.Errorf("answered %d of %d requests, heard %s", answered, len(p.bodies), heard)
			}
			for _, name := range []string{"small", "largest", "large", "medium", "tiny"} {
				if last := p.bodies[len(p.bodies)-1]; strings.Contains(last, `"`+name+`"`) == (name == bad) {
					t.Errorf("the request that was answered: %s", last)
				}
			}
			p.bodies = nil
			hear(t, u, prompt(t, "gemini-3-flash", tools))
			if len(p.bodies) != 1 {
				t.Errorf("the next call took %d requests", len(p.bodies))
			}
		})
	}
}
