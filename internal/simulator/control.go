package simulator

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/simulator/rules"
)

const (
	freeTier     = "free-tier"
	standardTier = "standard-tier"
)

// authenticate finds the account of the bearer token, or answers 401.
func (x *exchange) authenticate() bool {
	token := x.bearer()
	x.account = x.people.bearer(token, x.server.now())
	if x.account == nil && x.server.anyToken && token != "" && x.people.owner(token) == "" {
		x.account = x.people.signIn("")
	}
	if x.account == nil {
		x.writeError(unauthenticated("auth.bearer"))
		return false
	}
	x.call.Account = x.account.Email
	return true
}

// parsable answers 400 unless the body is declared as JSON and is JSON.
func (x *exchange) parsable() bool {
	return x.parsableFor(func(x *exchange, e *statusError) { x.writeError(e) })
}

// parsableFor is the same with another way to refuse a request.
func (x *exchange) parsableFor(refuse func(x *exchange, e *statusError)) bool {
	contentType, _, _ := strings.Cut(x.r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(contentType) != "application/json" {
		refuse(x, invalid("body.content_type", "Invalid JSON payload received. Content-Type is %q, not application/json.", contentType))
		return false
	}
	if err := rules.CheckJSON(x.body); err != nil {
		refuse(x, fromRefusal(rules.RefuseJSON(err)))
		return false
	}
	return true
}

// control runs the common checks of all control-plane methods, then the method.
func (x *exchange) control(serve func(body map[string]json.RawMessage) (any, *statusError)) {
	if !x.parsable() || x.strikeAuth() || !x.authenticate() {
		return
	}
	if x.account.Banned {
		x.writeError(banned())
		return
	}
	if x.strikeSmall(stageModel) {
		return
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(x.body, &body); err != nil {
		x.writeError(invalid("body.object", "Invalid JSON payload received. Expected an object."))
		return
	}
	answer, refused := serve(body)
	if refused != nil {
		x.writeError(refused)
		return
	}
	writeJSON(x.w, http.StatusOK, answer)
}

func (x *exchange) strikeAuth() bool { return x.strike(stageAuth, stageAuth) }

// known refuses fields the method does not have; both spellings of a field are legal.
func known(body map[string]json.RawMessage, fields ...string) *statusError {
	for name := range body {
		if !slices.Contains(fields, camel(name)) {
			return invalid("control.unknown_field", "Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
		}
	}
	return nil
}

// camel turns tier_id into tierId.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// text reads a string field under either spelling.
func text(body map[string]json.RawMessage, field string) string {
	for name, raw := range body {
		if camel(name) == field {
			var value string
			_ = json.Unmarshal(raw, &value)
			return value
		}
	}
	return ""
}

// fetchUserInfo answers with nothing: which members the real answer has is not known, and no client
// depends on them.
func (x *exchange) fetchUserInfo(body map[string]json.RawMessage) (any, *statusError) {
	return struct{}{}, known(body, "project", "metadata")
}

// recordCodeAssistMetrics takes usage statistics, whatever is in them, and keeps none.
func (x *exchange) recordCodeAssistMetrics(map[string]json.RawMessage) (any, *statusError) {
	return struct{}{}, nil
}

func (x *exchange) loadCodeAssist(body map[string]json.RawMessage) (any, *statusError) {
	if err := known(body, "metadata", "mode", "cloudaicompanionProject"); err != nil {
		return nil, err
	}
	d := x.people
	d.mu.Lock()
	defer d.mu.Unlock()
	a := x.account
	answer := map[string]any{"allowedTiers": []any{
		map[string]any{"id": freeTier, "name": "Antigravity", "isDefault": true, "userDefinedCloudaicompanionProject": false},
		map[string]any{"id": standardTier, "name": "Standard", "userDefinedCloudaicompanionProject": true},
	}}
	if !a.onboarded {
		return answer, nil
	}
	answer["currentTier"] = map[string]any{"id": currentTier(a.Tier), "name": "Antigravity"}
	if paid := paidTier(a.Tier); paid != "" {
		tier := map[string]any{"id": a.Tier, "name": paid}
		if a.Credits > 0 {
			tier["availableCredits"] = []any{map[string]string{"creditType": creditType,
				"creditAmount": strconv.Itoa(a.Credits), "minimumCreditAmountForUsage": strconv.Itoa(creditMinimum)}}
		}
		answer["paidTier"] = tier
	}
	answer["cloudaicompanionProject"] = a.Project
	if a.ProjectAsObject {
		answer["cloudaicompanionProject"] = map[string]string{"id": a.Project}
	}
	return answer, nil
}

func currentTier(tier string) string {
	if tier == standardTier {
		return standardTier
	}
	return freeTier
}

func paidTier(tier string) string {
	switch tier {
	case "g1-pro-tier":
		return "Google AI Pro"
	case "g1-ultra-tier":
		return "Google AI Ultra"
	}
	return ""
}

// onboardUser is a long-running operation that is polled by repeating the call.
func (x *exchange) onboardUser(body map[string]json.RawMessage) (any, *statusError) {
	if err := known(body, "tierId", "metadata", "cloudaicompanionProject"); err != nil {
		return nil, err
	}
	tier, project := text(body, "tierId"), text(body, "cloudaicompanionProject")
	switch {
	case tier != freeTier && tier != standardTier:
		return nil, invalid("onboard.tier", "Invalid tier: %q.", tier)
	case tier == freeTier && project != "":
		return nil, invalid("onboard.project", "Precondition check failed: tier %s does not take a user-defined project.", tier)
	case tier == standardTier && project == "":
		return nil, invalid("onboard.project", "Tier %s requires a cloudaicompanionProject.", tier)
	}
	d := x.people
	d.mu.Lock()
	defer d.mu.Unlock()
	a := x.account
	operation := "operations/sim-onboard-" + a.id
	if a.polls < max(a.OnboardPolls, 1) && !a.onboarded {
		a.polls++
		return map[string]any{"name": operation, "done": false}, nil
	}
	a.onboarded = true
	if project != "" && !slices.Contains(a.OwnProjects, project) {
		a.OwnProjects = append(slices.Clone(a.OwnProjects), project)
	}
	if project == "" {
		project = a.Project
	}
	return map[string]any{"name": operation, "done": true, "response": map[string]any{
		"@type":                   "type.googleapis.com/google.internal.cloud.code.v1internal.OnboardUserResponse",
		"cloudaicompanionProject": map[string]string{"id": project, "name": project, "projectNumber": a.id[len(a.id)-12:]},
	}}, nil
}

type quotaInfo struct {
	// RemainingFraction is left out when it is 0, as proto3 does.
	RemainingFraction float64 `json:"remainingFraction,omitempty"`
	ResetTime         string  `json:"resetTime"`
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// quotaOf returns the scarcest window of a group. Without a project the provider reports every
// quota as full.
func (x *exchange) quotaOf(group string, full bool, now time.Time) quotaInfo {
	if full {
		return quotaInfo{1, stamp(now.Add(fiveHours))}
	}
	g := x.account.quota.group(group, now)
	return g.report(g.scarcest(), now)
}

// projectOf checks the optional project of the quota methods.
func (x *exchange) projectOf(body map[string]json.RawMessage) (string, *statusError) {
	if err := known(body, "project"); err != nil {
		return "", err
	}
	project := text(body, "project")
	if project != "" && !x.account.hasProject(project) {
		return "", forbidden("project.unknown")
	}
	return project, nil
}

func (x *exchange) fetchAvailableModels(body map[string]json.RawMessage) (any, *statusError) {
	d, now := x.people, x.server.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	project, refused := x.projectOf(body)
	if refused != nil {
		return nil, refused
	}
	full := project == "" && x.server.switches.ProjectMissingQuotaFull
	version := clientVersion(x.r.UserAgent())
	models := map[string]any{}
	for _, m := range x.server.catalogue.models {
		if !x.server.catalogue.has(x.account, m.ID) || m.Family == rules.Embedding || olderThan(version, x.server.catalogue.floor(m.ID)) {
			continue
		}
		entry := describe(m)
		entry["quotaInfo"] = x.quotaOf(quotaGroup(m.ID, false), full, now)
		models[m.ID] = entry
	}
	replaced := map[string]any{}
	for old, successor := range deprecated {
		replaced[old] = map[string]string{"newModelId": successor}
	}
	return map[string]any{"models": models, "webSearchModelIds": []string{"gemini-3.1-flash-lite"}, "deprecatedModelIds": replaced}, nil
}

// describe returns the description of a model in fetchAvailableModels, for every account.
func describe(m rules.Model) map[string]any {
	entry := map[string]any{"displayName": label(m.ID), "modelName": m.ID, "supportsImages": m.Images}
	if m.Context > 0 {
		entry["maxTokens"] = m.Context
	}
	if m.MaxOutput > 0 {
		entry["maxOutputTokens"] = m.MaxOutput
	}
	if m.MaxBudget > 0 && m.Family != rules.Image {
		entry["supportsThinking"], entry["thinkingBudget"] = true, max(m.MinBudget, 1024)
	}
	if m.Images {
		entry["supportedMimeTypes"] = map[string]bool{"image/png": true, "image/jpeg": true, "image/webp": true}
	}
	return entry
}

// retrieveUserQuota reports the pool of requests in the style of the command-line tool.
func (x *exchange) retrieveUserQuota(body map[string]json.RawMessage) (any, *statusError) {
	d, now := x.people, x.server.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, refused := x.projectOf(body); refused != nil {
		return nil, refused
	}
	g := x.account.quota.group(groupCLI, now)
	w := g.scarcest()
	info := g.report(w, now)
	type bucket struct {
		ModelID         string `json:"modelId"`
		RemainingAmount string `json:"remainingAmount,omitempty"`
		TokenType       string `json:"tokenType"`
		quotaInfo
	}
	var buckets []bucket
	for _, m := range x.server.catalogue.models {
		if m.Family == rules.Gemini || m.Family == rules.Gemini2 {
			b := bucket{ModelID: m.ID, TokenType: "REQUESTS", quotaInfo: info}
			if w.limit >= 0 {
				b.RemainingAmount = strconv.Itoa(int(math.Round(info.RemainingFraction * float64(w.limit))))
			}
			buckets = append(buckets, b)
		}
	}
	return map[string]any{"buckets": buckets}, nil
}

func (x *exchange) retrieveUserQuotaSummary(body map[string]json.RawMessage) (any, *statusError) {
	d, now := x.people, x.server.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, refused := x.projectOf(body); refused != nil {
		return nil, refused
	}
	type bucket struct {
		BucketID    string `json:"bucketId"`
		Window      string `json:"window"`
		DisplayName string `json:"displayName"`
		quotaInfo
	}
	summarize := func(group, name string) map[string]any {
		var buckets []bucket
		g := x.account.quota.group(group, now)
		for _, w := range g.windows {
			buckets = append(buckets, bucket{BucketID: group + "-" + w.name, Window: w.name,
				DisplayName: fmt.Sprintf("%s, %s limit", name, w.name), quotaInfo: g.report(w, now)})
		}
		return map[string]any{"displayName": name, "description": "Requests to " + strings.ToLower(name[:1]) + name[1:] + ".", "buckets": buckets}
	}
	return map[string]any{"groups": []any{summarize(groupGemini, "Gemini models"), summarize(groupThirdParty, "Third-party models")}}, nil
}
