package simulator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestOnboarding(t *testing.T) {
	r := newRig(t, Options{})
	bearer := []string{"Authorization", "Bearer " + r.token("cyd@example.com")}
	post := func(method, body string) answer { return r.do("POST", "/v1internal:"+method, body, bearer...) }
	content := strings.Replace(envelopeOf("gemini-3-flash", prompt("hi")), "sim-project-ada", "sim-project-cyd", 1)

	a := post("loadCodeAssist", `{"metadata":{"ideType":"ANTIGRAVITY"}}`)
	if a.want(t, 200, `"isDefault":true`); strings.Contains(a.body, "cloudaicompanionProject\"") || strings.Contains(a.body, "currentTier") {
		t.Errorf("onboarded already: %s", a.body)
	}
	post("generateContent", content).want(t, 404)
	post("onboardUser", `{"tierId":"g1-pro-tier","metadata":{}}`).want(t, 400)
	post("onboardUser", `{"tierId":"free-tier","cloudaicompanionProject":"p"}`).want(t, 400)
	post("onboardUser", `{"tierId":"standard-tier"}`).want(t, 400)
	post("onboardUser", `{"tierId":"free-tier","nonsense":1}`).want(t, 400, `Unknown name \"nonsense\"`)
	post("onboardUser", `{"tier_id":"free-tier","metadata":{"ide_type":"ANTIGRAVITY"}}`).want(t, 200, `"done":false`, `"name":"operations/`)
	post("generateContent", content).want(t, 404)
	post("onboardUser", `{"tier_id":"free-tier"}`).want(t, 200, `"done":true`, `"id":"sim-project-cyd"`)
	post("loadCodeAssist", `{"metadata":{"ideType":9,"platform":2},"mode":1}`).want(t, 200, `"cloudaicompanionProject":"sim-project-cyd"`, `"currentTier":{"id":"free-tier"`)
	post("generateContent", content).want(t, 200)
}

func TestPaidAccountShowsCredits(t *testing.T) {
	r := newRig(t, Options{})
	r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", "Bearer "+r.token("bob@example.com")).
		want(t, 200, `"creditAmount":"25000"`, `"minimumCreditAmountForUsage":"50"`, `"id":"g1-pro-tier"`, `"cloudaicompanionProject":{"id":"sim-project-bob"}`)
}

func TestCallsBesideTheModels(t *testing.T) {
	r := newRig(t, Options{})
	r.internal("fetchUserInfo", "{}").want(t, 200, "{}")
	r.internal("recordCodeAssistMetrics", `{"metadata":{"ideType":"ANTIGRAVITY"},"metrics":[{"any":1}]}`).want(t, 200, "{}")
}

func TestControlPlaneRefuses(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada"}, {Email: "ban@example.com", Banned: true}}})
	r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", "Bearer x").want(t, 401)
	r.do("POST", "/v1internal:loadCodeAssist", "{}", "Authorization", "Bearer "+r.token("ban@example.com")).want(t, 403, "ACCOUNT_DISABLED")
	r.internal("fetchAvailableModels", `{"project":"other"}`).want(t, 403)
	r.internal("fetchAvailableModels", `{"project":`).want(t, 400, "Invalid JSON payload received.")
	r.internal("fetchUserInfo", `{"nonsense":1}`).want(t, 400, `Unknown name \"nonsense\"`)
	r.do("POST", "/v1internal:recordCodeAssistMetrics", "{}", "Authorization", "Bearer x").want(t, 401)
	r.internal("nonsense", "{}").want(t, 404, "<!DOCTYPE html>")
	r.do("GET", "/v1internal:loadCodeAssist", "").want(t, 404, "<!DOCTYPE html>")
	r.do("GET", "/token", "").want(t, 405)
	r.do("GET", "/nowhere", "").want(t, 404, "<!DOCTYPE html>")
	r.do("GET", "/simulator/calls", "").want(t, 404) // not opened
	r.do("GET", "/", "").want(t, 200, "[[text: hello]]", "rate_limit")
}

// modelQuota is the quota of a model as fetchAvailableModels reports it.
func (r *rig) modelQuota(model, body string) (fraction *float64, reset time.Time) {
	r.t.Helper()
	var got struct {
		Models map[string]struct {
			QuotaInfo struct {
				RemainingFraction *float64
				ResetTime         time.Time
			}
		}
	}
	r.internal("fetchAvailableModels", body).decode(r.t, &got)
	info := got.Models[model].QuotaInfo
	return info.RemainingFraction, info.ResetTime
}

func TestQuotaWindows(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada", Limits: Limits{FiveHour: 2, Weekly: 3}}}})
	const ours = `{"project":"sim-project-ada"}`
	ask := func(model string) answer { return r.internal("generateContent", envelopeOf(model, prompt("hi"))) }

	ask("gemini-3-flash").want(t, 200)
	if fraction, reset := r.modelQuota("gemini-3-flash", ours); *fraction != 0.5 || !reset.Equal(testStart.Add(fiveHours)) {
		t.Errorf("%v until %v", *fraction, reset)
	}
	r.server.Advance(1500 * time.Millisecond)
	ask("gemini-2.5-pro").want(t, 200) // the same group
	refused := ask("gemini-3-flash")
	refused.want(t, 429, `"QUOTA_EXHAUSTED"`, `"quotaResetDelay":"4h59m58.5s"`, `"retryDelay":"17998.5s"`, `"quotaResetTimeStamp":"2026-08-01T15:00:00Z"`, "reset after 4h59m58s.")
	if fraction, reset := r.modelQuota("gemini-3-flash", ours); fraction != nil || !reset.Equal(testStart.Add(fiveHours)) {
		t.Errorf("an empty window has a fraction %v until %v", fraction, reset)
	}
	if fraction, _ := r.modelQuota("gemini-3-flash", "{}"); fraction == nil || *fraction != 1 {
		t.Error("without project it is not full")
	}
	if fraction, _ := r.modelQuota("claude-sonnet-4-6", ours); fraction == nil || *fraction != 1 {
		t.Error("the other group is not full")
	}

	r.server.Advance(fiveHours)
	ask("gemini-3-flash").want(t, 200)
	ask("gemini-3-flash").want(t, 429, `"quotaResetTimeStamp":"2026-08-08T10:00:00Z"`) // the week's three are gone
	summary := r.internal("retrieveUserQuotaSummary", ours)
	summary.want(t, 200, `{"bucketId":"gemini-weekly","window":"weekly","displayName":"Gemini models, weekly limit","resetTime":"2026-08-08T10:00:00Z"}`,
		`"bucketId":"gemini-5h","window":"5h"`, `"remainingFraction":0.5`, `"bucketId":"3p-5h"`)
	r.server.Advance(oneWeek)
	ask("gemini-3-flash").want(t, 200)
}

// A fault that says that a quota is used up has it reported so, for as long as it says and for no
// other account or model. Which calls are answered is up to the faults alone.
func TestQuotaThatAFaultHasUsedUpIsReportedEmpty(t *testing.T) {
	r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: "quota_exhausted", Times: 1, Delay: Duration(2 * time.Hour)}}}})
	const ours = `{"project":"sim-project-ada"}`
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 429, `"quotaResetDelay":"2h0m0s"`)
	if fraction, reset := r.modelQuota("gemini-2.5-pro", ours); fraction != nil || !reset.Equal(testStart.Add(2*time.Hour)) {
		t.Errorf("%v is left until %v", fraction, reset)
	}
	if fraction, _ := r.modelQuota("claude-sonnet-4-6", ours); fraction == nil || *fraction != 1 {
		t.Error("the other group is not full")
	}
	r.internal("retrieveUserQuotaSummary", ours).want(t, 200,
		`{"bucketId":"gemini-5h","window":"5h","displayName":"Gemini models, 5h limit","resetTime":"2026-08-01T12:00:00Z"}`, `"bucketId":"3p-5h"`)
	r.internal("retrieveUserQuota", ours).want(t, 200, `"remainingFraction":1`)
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200)
	r.server.Advance(2 * time.Hour)
	if fraction, _ := r.modelQuota("gemini-2.5-pro", ours); fraction == nil || *fraction < 0.9 {
		t.Errorf("%v is left afterwards", fraction)
	}
}

func TestRateLimitPerMinute(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada", Limits: Limits{PerMinute: 2}}}})
	ask := func() answer { return r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))) }
	ask().want(t, 200)
	r.server.Advance(20 * time.Second)
	ask().want(t, 200)
	ask().want(t, 429, `"RATE_LIMIT_EXCEEDED"`, `"retryDelay":"40s"`, "reset after 40s.")
	r.server.Advance(40 * time.Second)
	ask().want(t, 200)
	ask().want(t, 429, `"retryDelay":"20s"`)
}

func TestCreditsPayWhenTheWindowIsEmpty(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada", Tier: "g1-pro-tier", Credits: 55, Limits: Limits{FiveHour: 1}}}})
	plain := envelopeOf("claude-sonnet-4-6", prompt("hi"))
	paid := strings.Replace(plain, `"request":`, `"enabledCreditTypes":["GOOGLE_ONE_AI"],"request":`, 1)
	r.internal("generateContent", paid).want(t, 200)
	r.internal("generateContent", plain).want(t, 429, "QUOTA_EXHAUSTED")
	r.internal("generateContent", paid).want(t, 200)
	r.internal("loadCodeAssist", "{}").want(t, 200, `"creditAmount":"45"`)
	r.internal("generateContent", paid).want(t, 429, "INSUFFICIENT_G1_CREDITS_BALANCE")
}

func TestNoLimit(t *testing.T) {
	r := newRig(t, Options{Accounts: []Account{{Email: "ada@example.com", Project: "sim-project-ada", Limits: Limits{FiveHour: -1, Weekly: -1}}}})
	r.internal("generateContent", envelopeOf("gemini-3-flash", prompt("hi"))).want(t, 200)
	if fraction, _ := r.modelQuota("gemini-3-flash", `{"project":"sim-project-ada"}`); *fraction != 1 {
		t.Error(*fraction)
	}
}

func TestModelsOfAnAccountAndAVersion(t *testing.T) {
	script := &Script{Models: map[string]ModelOverride{"gemini-2.5-pro": {Accounts: []string{"bob@example.com"}}}}
	r := newRig(t, Options{Script: script})
	has := func(email, userAgent, model string) bool {
		var got struct{ Models map[string]json.RawMessage }
		r.do("POST", "/v1internal:fetchAvailableModels", "{}", "Authorization", "Bearer "+r.token(email), "User-Agent", userAgent).decode(t, &got)
		_, ok := got.Models[model]
		return ok
	}
	if has("ada@example.com", agent, "gemini-2.5-pro") || !has("bob@example.com", agent, "gemini-2.5-pro") {
		t.Error("the override is not in the list")
	}
	if !has("ada@example.com", agent, "gemini-pro-agent") || has("ada@example.com", "antigravity/2.0.0", "gemini-pro-agent") {
		t.Error("the version is not looked at")
	}
	r.internal("generateContent", envelopeOf("gemini-2.5-pro", prompt("hi"))).want(t, 404)
	if _, err := New(Options{Script: &Script{Models: map[string]ModelOverride{"nope": {}}}}); err == nil {
		t.Error("an override of an unknown model is accepted")
	}
}
