package simulator

import (
	"strings"
	"testing"
	"time"
)

const twoKeys = `
keys:
  - first-key
  - {name: k2, key: second-key, limits: {per_minute: 2, per_day: 3}}
faults:
  - {when: {account: k2, model: gemini-2.5-pro}, do: rate_limit, delay: 2s, times: 1}
  - {when: {account: first-key, method: countTokens}, do: unauthorized}
`

func scripted(t *testing.T, text string) *rig {
	t.Helper()
	script, err := LoadScript(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, Options{Script: script, Admin: true})
}

// withKey asks the official API with a key.
func (r *rig) withKey(key, method string) answer {
	r.t.Helper()
	return r.do("POST", "/v1beta/models/"+method, prompt("hi"), "X-Goog-Api-Key", key)
}

func TestFaultsAreForOneKey(t *testing.T) {
	r := scripted(t, twoKeys)
	r.withKey("first-key", "gemini-2.5-pro:generateContent").want(t, 200)
	r.withKey("second-key", "gemini-2.5-pro:generateContent").want(t, 429, "RESOURCE_EXHAUSTED", "PerMinutePerProjectPerModel", `"retryDelay":"2s"`)
	r.withKey("second-key", "gemini-2.5-pro:generateContent").want(t, 200)
	r.withKey("second-key", "gemini-2.5-pro:countTokens").want(t, 200)
	r.withKey("first-key", "gemini-2.5-pro:countTokens").want(t, 401)
	r.withKey("third-key", "gemini-2.5-pro:generateContent").want(t, 400, "API_KEY_INVALID")
	var accounts []string
	for _, call := range r.server.Calls() {
		accounts = append(accounts, call.Account)
	}
	if got := strings.Join(accounts, " "); got != "first-key k2 k2 k2 first-key " {
		t.Errorf("the calls are of %q", got)
	}
	r.do("GET", "/simulator/calls", "").lacks(t, "second-key", "third-key")
}

// Where any key will do, faults can tell them apart all the same; the list of calls keeps none.
func TestFaultsKnowKeysThatAreNotConfigured(t *testing.T) {
	r := scripted(t, "faults: [{when: {account: hush-2}, do: bare_429}]")
	r.withKey("hush-1", "gemini-2.5-pro:generateContent").want(t, 200)
	r.withKey("hush-2", "gemini-2.5-pro:generateContent").want(t, 429)
	r.do("POST", "/v1beta/models/gemini-2.5-pro:generateContent?key=hush-2", prompt("hi")).want(t, 429)
	r.do("GET", "/simulator/calls", "").lacks(t, "hush-")
}

func TestKeysHaveTheirOwnQuota(t *testing.T) {
	r := scripted(t, twoKeys)
	ask := func() answer { return r.withKey("second-key", "gemini-2.5-flash:generateContent") }
	ask().want(t, 200)
	r.server.Advance(20 * time.Second)
	ask().want(t, 200)
	ask().want(t, 429, "PerMinutePerProjectPerModel", `"retryDelay":"40s"`)
	r.withKey("second-key", "gemini-2.5-flash:countTokens").want(t, 200)
	r.withKey("second-key", "gemini-2.5-flash-lite:generateContent").want(t, 200) // each model is counted apart
	r.withKey("first-key", "gemini-2.5-flash:generateContent").want(t, 200)
	r.server.Advance(40 * time.Second)
	ask().want(t, 200)
	r.server.Advance(time.Hour)
	ask().want(t, 429, "PerDayPerProjectPerModel", `"retryDelay":"82740s"`)
	r.server.Advance(24 * time.Hour)
	ask().want(t, 200)
	if err := r.server.Reset(); err != nil {
		t.Fatal(err)
	}
	ask().want(t, 200)
}

func TestScriptsWithBadKeys(t *testing.T) {
	for text, want := range map[string]string{
		"keys: [a, a]": "listed twice",
		"keys: [{name: a, key: b}, {key: c, name: a}]": "listed twice",
		"keys:\n  - a\n  - {name: b}":                  "line 3: an API key is empty",
		"keys: [\"\"]":                                 "line 1: an API key is empty",
		"keys: [{key: a, nme: b}]":                     `unknown key "nme"`,
		"keys: [{key: a, limits: {per_week: 1}}]":      `unknown key "per_week"`,
		"switches: {unions_in_schema: acept}":          "switch unions_in_schema is acept, want one of accept, ignore, reject",
	} {
		script, err := LoadScript(strings.NewReader(text))
		if err == nil {
			_, err = New(Options{Script: script})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// lacks says that nothing of the kind is in the answer.
func (a answer) lacks(t *testing.T, fragments ...string) {
	t.Helper()
	for _, fragment := range fragments {
		if strings.Contains(a.body, fragment) {
			t.Errorf("%s is in %s", fragment, a.body)
		}
	}
}
