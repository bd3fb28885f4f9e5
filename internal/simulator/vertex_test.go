package simulator

import (
	"encoding/json"
	"strings"
	"testing"

	"perigee/internal/simulator/rules"
)

const vertexGlobal = "/v1/projects/sim-vertex/locations/global/publishers/google/models/"

// vertexToken is a token of the service account of virtual machines.
func (r *rig) vertexToken() string {
	return r.server.directory().grant(computeEmail, cloudScope, tokenLifetime, r.server.now())
}

func (r *rig) vertex(path, body string, header ...string) answer {
	r.t.Helper()
	return r.do("POST", path, body, append([]string{"Authorization", "Bearer " + r.vertexToken()}, header...)...)
}

func TestCredentialsOfVertex(t *testing.T) {
	r := newRig(t, Options{Admin: true, APIKeys: []APIKey{{Key: "k"}}})
	const path = vertexGlobal + "gemini-2.5-flash:generateContent"
	body, ada := prompt("hi"), r.token("ada@example.com")
	r.do("POST", path, body).want(t, 401, "CREDENTIALS_MISSING")
	r.do("POST", path, body, "X-Goog-Api-Key", "k").want(t, 401, "API keys are not supported by this API")
	r.do("POST", path, body, "Authorization", "Bearer x").want(t, 401, "ACCESS_TOKEN_TYPE_UNSUPPORTED")
	r.vertex(path, body).want(t, 200, "You said: hi")
	// A user needs a quota project, and may use the projects that it has.
	r.do("POST", path, body, "Authorization", "Bearer "+ada).want(t, 403, "requires a quota project")
	r.do("POST", path, body, "Authorization", "Bearer "+ada, userProject, "sim-project-ada").want(t, 200)
	r.do("POST", path, body, "Authorization", "Bearer "+ada, userProject, "sim-project-bob").want(t, 403, "USER_PROJECT_DENIED", "sim-project-bob")
	r.do("POST", strings.Replace(path, vertexProject, "sim-project-ada", 1), body, "Authorization", "Bearer "+ada, userProject, vertexProject).want(t, 200)
	r.vertex(strings.Replace(path, vertexProject, "other", 1), body).want(t, 403, "IAM_PERMISSION_DENIED", "'//aiplatform.googleapis.com/projects/other/")
	r.vertex(strings.Replace(path, vertexProject, disabledProject, 1), body).want(t, 403, "SERVICE_DISABLED", "has not been used in project sim-disabled before")
	r.do("DELETE", "/simulator/tokens", "").want(t, 200)
	r.do("POST", path, body, "Authorization", "Bearer "+ada).want(t, 401, "ACCESS_TOKEN_EXPIRED")
	// The express mode has a key and no project.
	const express = "/v1/publishers/google/models/gemini-2.5-flash:generateContent"
	r.do("POST", express, body, "X-Goog-Api-Key", "k").want(t, 200, "You said: hi")
	r.do("POST", express+"?key=k", body).want(t, 200)
	r.do("POST", express, body, "X-Goog-Api-Key", "x").want(t, 400, "API_KEY_INVALID")
}

func TestServiceAccountsMaySignTheirOwnTokensForVertex(t *testing.T) {
	r := newTCPRig(t, Options{Admin: true})
	file := r.serviceFile()
	for audience, status := range map[string]int{"https://aiplatform.googleapis.com/": 200, "https://example.com/": 401} {
		token := file.jwt(t, "RS256", file.claims(map[string]any{"aud": audience, "scope": ""}))
		r.do("POST", vertexGlobal+"gemini-2.5-flash:generateContent", prompt("hi"), "Authorization", "Bearer "+token).want(t, status)
	}
}

func TestLocationsOfVertex(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range []struct {
		location, host, model string
		status                int
		want                  string
	}{
		{"global", "aiplatform.googleapis.com", "gemini-3-flash-preview", 200, ""},
		{"us-central1", "us-central1-aiplatform.googleapis.com", "gemini-2.5-pro", 200, ""},
		{"us-central1", "us-central1-aiplatform.googleapis.com", "gemini-3-flash-preview", 404, "Publisher Model `projects/sim-vertex/locations/us-central1/publishers/google/models/gemini-3-flash-preview` was not found"},
		{"us", "aiplatform.us.rep.googleapis.com", "gemini-3-flash-preview", 200, ""},
		{"us", "127.0.0.1:8742", "gemini-3-flash-preview", 200, ""},
		{"us", "aiplatform.googleapis.com", "gemini-3-flash-preview", 400, "does not match the endpoint"},
		{"us", "aiplatform.eu.rep.googleapis.com", "gemini-3-flash-preview", 400, "use aiplatform.us.rep.googleapis.com"},
		{"global", "us-central1-aiplatform.googleapis.com", "gemini-2.5-pro", 400, "does not match the endpoint"},
		{"moon", "127.0.0.1", "gemini-2.5-pro", 400, "Unsupported region for Vertex AI"},
		{"global", "127.0.0.1", "gemini-9", 404, "NOT_FOUND"},
		{"global", "127.0.0.1", "claude-sonnet-4-6", 404, "NOT_FOUND"},
	} {
		a := r.vertex(strings.Replace(vertexGlobal, "global", c.location, 1)+c.model+":generateContent", prompt("hi"), "Host", c.host)
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s at %s: %d %s", c.location, c.host, a.status, a.body)
		}
	}
	for _, path := range []string{"x:generateImages", "gemini-2.5-pro:rawPredict"} {
		r.vertex(vertexGlobal+path, prompt("hi")).want(t, 404, "<!DOCTYPE html>")
	}
	r.vertex("/v1/projects/sim-vertex/locations/global/endpoints/1:predict", "{}").want(t, 404, "<!DOCTYPE html>")
}

// Members that only AI Studio or only Vertex AI has.
func TestMembersOfVertex(t *testing.T) {
	const text = `{"text":"hi"}`
	call := `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}`
	for _, c := range []struct{ body, refused string }{
		{`"labels":{"team":"a"}`, ""},
		{`"generationConfig":{"routingConfig":{"autoMode":{}},"audioTimestamp":true}`, ""},
		{`"modelArmorConfig":{"promptTemplateName":"x"}`, ""},
		{`"tools":[{"enterpriseWebSearch":{}}]`, ""},
		{`"store":true`, `Unknown name \"store\": Cannot find field.`},
		{`"model":"models/gemini-2.5-flash"`, `Unknown name \"model\": Cannot find field.`},
		{`"tools":[{"fileSearch":{}}]`, `Unknown name \"fileSearch\" at 'tools[0]'`},
		{`"tools":[{"mcpServers":[]}]`, `Unknown name \"mcpServers\" at 'tools[0]'`},
		{`"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"f"}]}]`, "Multiple tools are supported only when they are all search tools."},
		{`"toolConfig":{"includeServerSideToolInvocations":true}`, `Unknown name \"includeServerSideToolInvocations\"`},
		{`"generationConfig":{"enableEnhancedCivicAnswers":true}`, `Unknown name \"enableEnhancedCivicAnswers\"`},
		{`"generationConfig":{"topK":"x"}`, "'generation_config.top_k' (TYPE_FLOAT)"},
		{`"cachedContent":"cachedContents/1"`, "projects/{project}/locations/{location}/cachedContents/{cached_content}"},
		{`"contents":[{"parts":[` + text + `]}]`, "Please use a valid role: user, model."},
		{`"contents":[{"role":"user","parts":[{"text":"hi","partMetadata":{}}]}]`, `Unknown name \"partMetadata\"`},
		{`"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}]`, "Cannot fetch content from the provided URL"},
		{`"contents":[{"role":"user","parts":[` + text + `]},{"role":"model","parts":[` + call + `]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{},"willContinue":true}}]}]`, `Unknown name \"willContinue\"`},
	} {
		r := newRig(t, Options{})
		body := `{` + c.body + `}`
		if !strings.Contains(c.body, `"contents"`) {
			body = `{"contents":[{"role":"user","parts":[` + text + `]}],` + c.body + `}`
		}
		a := r.vertex(vertexGlobal+"gemini-2.5-flash:generateContent", body)
		if c.refused == "" {
			a.want(t, 200)
			continue
		}
		a.want(t, 400, c.refused, "INVALID_ARGUMENT")
	}
}

// A thought signature of one is not one of the other, and the documented value is accepted by both.
func TestSignaturesOfVertexAreItsOwn(t *testing.T) {
	r := newRig(t, Options{})
	tools := `,"tools":[{"functionDeclarations":[{"name":"f"}]}]`
	ask := `{"contents":[{"role":"user","parts":[{"text":"[[call: f]]"}]}]` + tools + `}`
	history := func(signature string) string {
		return `{"contents":[{"role":"user","parts":[{"text":"[[call: f]]"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"` +
			signature + `"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]` + tools + `}`
	}
	const model = "gemini-3-flash-preview:generateContent"
	signature := func(a answer) string {
		t.Helper()
		var body response
		a.decode(t, &body)
		for _, p := range body.Candidates[0].Content.Parts {
			if p.Call != nil && p.Signature != "" {
				return p.Signature
			}
		}
		t.Fatalf("no signature in %s", a.body)
		return ""
	}
	own, studio := signature(r.vertex(vertexGlobal+model, ask)), signature(r.official(model, ask))
	r.vertex(vertexGlobal+model, history(own)).want(t, 200)
	r.vertex(vertexGlobal+model, history(studio)).want(t, 400)
	r.vertex(vertexGlobal+model, history("skip_thought_signature_validator")).want(t, 200)
	r.official(model, history(own)).want(t, 400)
}

func TestAnswersOfVertex(t *testing.T) {
	r := newRig(t, Options{})
	a := r.vertex(vertexGlobal+"gemini-2.5-flash:streamGenerateContent?alt=sse", prompt("[[text: abc]][[chunks: 3]]"))
	a.want(t, 200, `"trafficType":"ON_DEMAND"`, `"createTime":"2026-08-01T10:00:00.000000Z"`, `"responseId":`)
	if strings.Count(a.body, "data: ") != 3 || strings.Contains(a.body, `"index"`) {
		t.Errorf("%s", a.body)
	}
	a = r.vertex(vertexGlobal+"gemini-2.5-flash:countTokens", `{"contents":[{"role":"user","parts":[{"text":"12345678"}]}],"systemInstruction":{"parts":[{"text":"1234"}]},"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{}}`)
	a.want(t, 200, `"totalTokens":`, `"totalBillableCharacters":`)
	const predict = vertexGlobal + "gemini-embedding-001:predict"
	a = r.vertex(predict, `{"instances":[{"content":"a b","task_type":"RETRIEVAL_QUERY"}],"parameters":{"outputDimensionality":4}}`)
	a.want(t, 200, `"predictions":[{"embeddings":{"statistics":{"token_count":1,"truncated":false},"values":[`)
	r.vertex(predict, `{"instances":[{"content":"a"},{"content":"b"}]}`).want(t, 400, "Max allowed: 1")
	r.vertex(predict, `{"instances":[{"content":"a"}],"model":"x"}`).want(t, 400, "unknown field")
	r.vertex(predict, `{"instances":[{"content":"`+strings.Repeat("word ", 2000)+`"}],"parameters":{"autoTruncate":false}}`).want(t, 400, "The input token count is 2500")
	r.vertex(vertexGlobal+"gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"a"}]}}`).want(t, 400, "does not support the method embedContent")
	r.do("POST", "/v1/publishers/google/models/gemini-embedding-001:predict", `{"instances":[{"content":"a"}]}`, "X-Goog-Api-Key", "k").want(t, 404)
}

func TestEmbeddingsOfVertex(t *testing.T) {
	r := newRig(t, Options{})
	instances := func(n int, text string) string {
		return `{"instances":[` + strings.TrimSuffix(strings.Repeat(`{"content":"`+text+`"},`, n), ",") + `]}`
	}
	const older, newer = vertexGlobal + "text-embedding-005:predict", vertexGlobal + "gemini-embedding-2:embedContent"
	a := r.vertex(older, instances(250, "a"))
	a.want(t, 200)
	if n := strings.Count(a.body, `"token_count":1`); n != 250 {
		t.Errorf("%d vectors", n)
	}
	r.vertex(older, instances(251, "a")).want(t, 400, "251 instance(s) is not allowed in the current request. Max allowed: 250")
	r.vertex(older, instances(12, strings.Repeat("word ", 1600))).want(t, 400, "the input token count is 24000 but the model supports up to 20000")
	r.vertex(older, `{"instances":[{"content":"a"}],"parameters":{"outputDimensionality":769}}`).want(t, 400, "from 1 to 768")
	r.vertex(newer, `{"content":{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]},"embedContentConfig":{"taskType":"CLUSTERING","outputDimensionality":2}}`).
		want(t, 200, `{"embedding":{"values":[`, `"truncated":false,"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}`)
	r.vertex(newer, `{"content":{"parts":[{"text":"a"}]},"taskType":"CLUSTERING"}`).want(t, 400, `unknown field \"taskType\"`)
	r.vertex(newer, `{"embedContentConfig":{}}`).want(t, 400, "The text content is empty.")
	r.vertex(vertexGlobal+"gemini-embedding-2:predict", instances(1, "a")).want(t, 400, "does not support the method predict")
}

func TestModelListOfVertex(t *testing.T) {
	r := newRig(t, Options{})
	seen, token := map[string]bool{}, ""
	for {
		var page struct {
			Models []struct{ Name string } `json:"publisherModels"`
			Next   string                  `json:"nextPageToken"`
		}
		r.do("GET", "/v1beta1/publishers/google/models?pageSize=5&pageToken="+token, "", "Authorization", "Bearer "+r.vertexToken()).decode(t, &page)
		for _, m := range page.Models {
			seen[m.Name] = true
		}
		if token = page.Next; token == "" {
			break
		}
	}
	if len(seen) < 10 || !seen["publishers/google/models/gemini-2.5-flash"] || !seen["publishers/google/models/text-embedding-005"] || seen["publishers/google/models/claude-sonnet-4-6"] {
		t.Errorf("%v", seen)
	}
	r.do("GET", vertexGlobal+"gemini-2.5-flash", "", "Authorization", "Bearer "+r.vertexToken()).want(t, 200, `"versionId":"001"`)
	r.do("GET", "/v1beta1/publishers/google/models", "", "Host", "europe-west4-aiplatform.googleapis.com", "Authorization", "Bearer "+r.vertexToken()).want(t, 200)
	r.do("GET", "/v1/projects/sim-vertex/locations/global/publishers/google/models", "", "Authorization", "Bearer "+r.vertexToken()).want(t, 404)
}

func TestFaultsInTheFormOfVertex(t *testing.T) {
	for do, c := range map[string]struct {
		status int
		want   string
	}{
		"rate_limit":       {429, "Resource exhausted, please try again later."},
		"quota_exhausted":  {429, "Quota exceeded for aiplatform.googleapis.com/"},
		"service_disabled": {403, "Vertex AI API has not been used in project"},
		"unauthorized":     {401, "ACCESS_TOKEN_EXPIRED"},
		"capacity":         {503, "The model is overloaded."},
		"unavailable_503":  {503, "UNAVAILABLE"},
	} {
		r := newRig(t, Options{Script: &Script{Faults: []Fault{{Do: do, When: When{Account: "sim-compute", Model: "gemini-2.5", Method: "generateContent"}}}}})
		a := r.vertex(vertexGlobal+"gemini-2.5-flash:generateContent", prompt("hi"))
		a.want(t, c.status, c.want)
		if c.status == 429 && strings.Contains(a.body, `"details"`) {
			t.Errorf("%s: details in %s", do, a.body)
		}
		if !json.Valid([]byte(a.body)) || r.server.Calls()[0].Fault != do {
			t.Errorf("%s: %+v", do, r.server.Calls()[0])
		}
	}
}

func TestEveryModelOfGoogleAnswersAtVertex(t *testing.T) {
	r := newRig(t, Options{})
	for _, m := range r.server.catalogue.models {
		if ofGoogle(m) && m.Family != rules.Embedding && m.Family != rules.Image {
			r.vertex(vertexGlobal+m.ID+":generateContent", prompt("hi")).want(t, 200, "You said: hi")
		}
	}
}
