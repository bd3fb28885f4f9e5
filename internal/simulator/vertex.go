package simulator

import (
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee/internal/simulator/rules"
)

const (
	vertexService = "aiplatform.googleapis.com"
	// disabledProject exists, but Vertex AI is turned off in it.
	disabledProject = "sim-disabled"
	// userProject is the header that names the project that pays.
	userProject = "x-goog-user-project"
)

// vertexLocations are the locations of Vertex AI. Newer models of Gemini are only in the first three.
var vertexLocations = []string{"global", "us", "eu", "us-central1", "us-east5", "europe-west1", "europe-west4", "asia-southeast1"}

var vertexPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/(v1|v1beta1)/(?:projects/([^/]+)/locations/([^/]+)/)?publishers/([^/]+)/models(?:/([^/:]+)(?::(\w+))?)?$`)
})

// vertexPath has the parts of a path of Vertex AI. Without a project, it is of the express mode, or
// of the list of models.
type vertexPath struct{ version, project, location, publisher, model, method string }

func readVertexPath(path string) (vertexPath, bool) {
	m := vertexPattern().FindStringSubmatch(path)
	if m == nil {
		return vertexPath{}, false
	}
	return vertexPath{m[1], m[2], m[3], m[4], m[5], m[6]}, true
}

// isVertex reports whether a path is of Vertex AI, even if there is nothing at it.
func isVertex(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1")
	rest = strings.TrimPrefix(rest, "beta1")
	return ok && (strings.HasPrefix(rest, "/projects/") || strings.HasPrefix(rest, "/publishers/"))
}

// vertexHost is the host that serves a location.
func vertexHost(location string) string {
	switch location {
	case "", "global":
		return vertexService
	case "us", "eu":
		return "aiplatform." + location + ".rep.googleapis.com"
	}
	return location + "-" + vertexService
}

// resource is the name of the model in errors.
func (p vertexPath) resource() string {
	model := "publishers/" + p.publisher + "/models/" + p.model
	if p.project == "" {
		return model
	}
	return "projects/" + p.project + "/locations/" + p.location + "/" + model
}

// vertex serves the models of Google at Vertex AI.
func (x *exchange) vertex() {
	p, ok := readVertexPath(x.r.URL.Path)
	if !ok || p.publisher != "google" {
		writeNotFoundPage(x.w)
		return
	}
	if refused := x.admitVertex(p); refused != nil {
		x.writeError(refused)
		return
	}
	switch isGet := x.r.Method == http.MethodGet; {
	case x.strikeAuth():
	case p.method == "" && isGet:
		x.vertexModels(p)
	case p.method == "" || x.r.Method != http.MethodPost:
		writeNotFoundPage(x.w)
	default:
		x.vertexMethod(p)
	}
}

// admitVertex checks credentials, host, location and project, in this order.
func (x *exchange) admitVertex(p vertexPath) *statusError {
	if x.sentKey() != "" && x.bearer() == "" {
		if p.project != "" {
			e := refuse(http.StatusUnauthorized, "UNAUTHENTICATED", "auth.key", "API keys are not supported by this API. Expected OAuth2 access token or other authentication credentials that assert a principal. See https://cloud.google.com/docs/authentication")
			e.Details = []any{errorInfo("CREDENTIALS_MISSING", publicDomain, map[string]string{"service": vertexService})}
			return e
		}
		return x.checkKey()
	}
	token, refused := x.cloudToken(vertexService)
	if refused != nil {
		return refused
	}
	x.call.Account = token.owner()
	if refused := x.checkLocation(p); refused != nil {
		return refused
	}
	return x.checkVertexProject(p, token)
}

// checkLocation refuses an unknown location, and the host of another one. The list of models, which
// names none, is at every host. Hosts that are not Google's, such as that of a test, serve all of them.
func (x *exchange) checkLocation(p vertexPath) *statusError {
	if p.location == "" {
		return nil
	}
	if !slices.Contains(vertexLocations, p.location) {
		return invalid("location.unknown", "Unsupported region for Vertex AI, select from %s", strings.Join(vertexLocations, ", "))
	}
	host, _, err := net.SplitHostPort(x.r.Host)
	if err != nil {
		host = x.r.Host
	}
	if want := vertexHost(p.location); strings.HasSuffix(host, "aiplatform.googleapis.com") && host != want || strings.HasSuffix(host, ".rep.googleapis.com") && host != want {
		return invalid("location.host", "The location %q of the resource does not match the endpoint %s; use %s.", p.location, host, want)
	}
	return nil
}

// checkVertexProject checks the project of the resource, and the one that pays for a user.
func (x *exchange) checkVertexProject(p vertexPath, token *accessToken) *statusError {
	knows := func(project string) bool {
		if project == vertexProject || project == disabledProject {
			return true
		}
		x.people.mu.Lock()
		defer x.people.mu.Unlock()
		return token.account != nil && token.account.hasProject(project)
	}
	pays := x.r.Header.Get(userProject)
	switch {
	case pays != "" && !knows(pays):
		e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "project.quota", "Caller does not have required permission to use project %s. Grant the caller the roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use permission, by visiting https://console.developers.google.com/iam-admin/iam/project?project=%[1]s and then retry. Propagation of the new permission may take a few minutes.", pays)
		e.Details = []any{errorInfo("USER_PROJECT_DENIED", publicDomain, map[string]string{"service": vertexService, "consumer": "projects/" + pays})}
		return e
	case pays == "" && token.account != nil:
		e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "project.quota_missing", "Your application is authenticating by using local Application Default Credentials. The aiplatform.googleapis.com API requires a quota project, which is not set by default. To learn how to set your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds .")
		e.Details = []any{errorInfo("SERVICE_DISABLED", publicDomain, map[string]string{"service": vertexService, "consumer": "projects/764086051850"})}
		return e
	case p.project == disabledProject || pays == disabledProject:
		return vertexDisabled(disabledProject)
	case p.project != "" && !knows(p.project):
		const permission = "aiplatform.endpoints.predict"
		e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "project.unknown", "Permission '%s' denied on resource '//aiplatform.googleapis.com/%s' (or it may not exist).", permission, p.resource())
		e.Details = []any{errorInfo("IAM_PERMISSION_DENIED", vertexService, map[string]string{"permission": permission, "resource": p.resource()})}
		return e
	}
	return nil
}

func vertexDisabled(project string) *statusError {
	e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "project.disabled", "Vertex AI API has not been used in project %s before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/aiplatform.googleapis.com/overview?project=%[1]s then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.", project)
	e.Details = []any{errorInfo("SERVICE_DISABLED", publicDomain, map[string]string{"service": vertexService, "consumer": "projects/" + project, "containerInfo": project})}
	return e
}

// vertexError returns the error of a fault where Vertex AI has one of its own, or nil.
func vertexError(do, model string) *statusError {
	switch do {
	case "rate_limit", "bare_429", "capacity_429":
		return refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "", "Resource exhausted, please try again later. Please refer to https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details.")
	case "quota_exhausted":
		return refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "", "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model with base model: %s. Please submit a quota increase request. https://cloud.google.com/vertex-ai/docs/generative-ai/quotas-genai.", model)
	case "capacity":
		return refuse(http.StatusServiceUnavailable, "UNAVAILABLE", "", "The model is overloaded. Please try again later.")
	case "service_disabled":
		return vertexDisabled(disabledProject)
	case "unauthorized":
		e := unauthenticated("")
		e.Details = []any{errorInfo("ACCESS_TOKEN_EXPIRED", publicDomain, map[string]string{"service": vertexService})}
		return e
	}
	return nil
}

// vertexModel finds a model of Google in a location.
func (x *exchange) vertexModel(p vertexPath) (rules.Model, *statusError) {
	model, found := x.server.catalogue.find(p.model)
	if e, ok := findVertexEmbedder(p.model); ok && !found {
		model, found = e.model(), true
	}
	newer := model.Family == rules.Gemini || model.Family == rules.Image
	if !found || !ofGoogle(model) || newer && !slices.Contains([]string{"", "global", "us", "eu"}, p.location) {
		return model, publisherModelMissing(p)
	}
	return model, nil
}

func publisherModelMissing(p vertexPath) *statusError {
	return refuse(http.StatusNotFound, "NOT_FOUND", "model.unknown", "Publisher Model `%s` was not found or your project does not have access to it. Please ensure you are using a valid model version. For more information, see: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions", p.resource())
}

// ofGoogle reports whether a model is one of Google's.
func ofGoogle(m rules.Model) bool { return m.Family != rules.Claude && m.Family != rules.GPTOSS }

// vertexModels serves the list of models, or one of them.
func (x *exchange) vertexModels(p vertexPath) {
	if x.strikeSmall(stageModel) {
		return
	}
	if p.model != "" {
		model, refused := x.vertexModel(p)
		if refused != nil {
			x.writeError(refused)
			return
		}
		writeJSON(x.w, http.StatusOK, publisherModel(model))
		return
	}
	if p.project != "" { // base models belong to no project
		writeNotFoundPage(x.w)
		return
	}
	var all []any
	for _, m := range x.server.catalogue.models {
		if ofGoogle(m) {
			all = append(all, publisherModel(m))
		}
	}
	for _, e := range vertexEmbedders {
		if _, found := x.server.catalogue.find(e.id); !found {
			all = append(all, publisherModel(e.model()))
		}
	}
	query, size := x.r.URL.Query(), defaultPage
	if n, err := strconv.Atoi(query.Get("pageSize")); err == nil && n > 0 {
		size = min(n, maxPage)
	}
	start, ok := readPageToken(query.Get("pageToken"), len(all))
	if !ok {
		x.writeError(invalid("models.page_token", "Invalid page token."))
		return
	}
	end := min(start+size, len(all))
	page := map[string]any{"publisherModels": all[start:end]}
	if end < len(all) {
		page["nextPageToken"] = base64.RawURLEncoding.EncodeToString([]byte("from " + strconv.Itoa(end)))
	}
	writeJSON(x.w, http.StatusOK, page)
}

func publisherModel(m rules.Model) any {
	return map[string]any{"name": "publishers/google/models/" + m.ID, "versionId": "001", "openSourceCategory": "PROPRIETARY", "launchStage": "GA",
		"publisherModelTemplate": "projects/{project}/locations/{location}/publishers/google/models/" + m.ID}
}

// vertexSigner signs thoughts at Vertex AI, which does not accept those of the official API.
func (s *Server) vertexSigner() signer {
	key := sha256.Sum256(append([]byte("vertex\x00"), s.signer.key...))
	return signer{key[:]}
}

func (x *exchange) vertexMethod(p vertexPath) {
	embeds := p.project != "" && (p.method == "predict" || p.method == "embedContent") // express mode has neither
	if !embeds && !slices.Contains([]string{"generateContent", "streamGenerateContent", "countTokens"}, p.method) {
		writeNotFoundPage(x.w)
		return
	}
	if !x.parsable() || x.strike(stageModel, stageModel) {
		return
	}
	model, refused := x.vertexModel(p)
	if refused != nil {
		x.writeError(refused)
		return
	}
	if embeds || model.Family == rules.Embedding && p.method != "countTokens" {
		x.vertexEmbed(p, model)
		return
	}
	input := rules.Input{Surface: rules.Vertex, Method: rules.Generate, Model: model, Body: x.body,
		Switches: x.server.switches, Verify: x.server.vertexSigner().verify}
	if p.method == "countTokens" {
		input.Method = rules.Count
	}
	parsed, refusal := rules.Check(input)
	if refusal != nil {
		x.writeError(fromRefusal(refusal))
		return
	}
	if x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return
	}
	if input.Method == rules.Count {
		n := promptTokens(parsed)
		writeJSON(x.w, http.StatusOK, map[string]any{"totalTokens": n, "totalBillableCharacters": parsed.TextBytes,
			"promptTokensDetails": []any{map[string]any{"modality": "TEXT", "tokenCount": n}}})
		return
	}
	if refused := x.people.spendKey(x.key, model.ID, x.server.now()); refused != nil {
		x.writeError(refused)
		return
	}
	x.answer(rules.Vertex, model, parsed, p.method == "streamGenerateContent", false)
}
