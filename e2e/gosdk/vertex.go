package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"cloud.google.com/go/auth/credentials"
	"golang.org/x/oauth2/google"
	"google.golang.org/genai"
)

// vertexScenarios examine Vertex AI of the simulator with Google's library.
func vertexScenarios() []scenario {
	return []scenario{
		{"question", vertexQuestion},
		{"tool loop", inTurn(vertexLoop(model), vertexLoop(older))},
		{"credentials", vertexCredentials},
		{"locations", vertexLocations},
		{"structured output", vertexFormat},
		{"embeddings", vertexEmbeddings},
		{"tokens and models", inTurn(vertexTokens, vertexModels)},
		{"error", vertexErrors},
	}
}

const (
	cloudProject = "sim-vertex"
	cloudScope   = "https://www.googleapis.com/auth/cloud-platform"
)

// googleFile returns a credentials file of a type, which gets its tokens from the simulator.
func googleFile(ctx context.Context, kind string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, simulated+"/simulator/credentials?type="+kind, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// vertexClient has the library find its credentials itself, as a program of a user does.
func vertexClient(ctx context.Context) (*genai.Client, error) {
	content, err := googleFile(ctx, "service_account")
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "gosdk-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close(), os.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file.Name())); err != nil {
		return nil, err
	}
	return genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: cloudProject, Location: "global",
		HTTPOptions: genai.HTTPOptions{BaseURL: simulated}})
}

// A googleHosts sends requests for any host to the simulator, which sees the host that was meant.
type googleHosts struct{ hosts []string }

func (g *googleHosts) RoundTrip(req *http.Request) (*http.Response, error) {
	target, err := url.Parse(simulated)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	if req.URL.Host != target.Host { // tokens are requested there
		g.hosts = append(g.hosts, req.URL.Host)
		req.Host = req.URL.Host
	}
	req.URL.Scheme, req.URL.Host = target.Scheme, target.Host
	return http.DefaultTransport.RoundTrip(req)
}

// serviceAccount has the credentials of a library of Google's that several SDKs use.
func serviceAccount(ctx context.Context) (*google.Credentials, error) {
	content, err := googleFile(ctx, "service_account")
	if err != nil {
		return nil, err
	}
	return google.CredentialsFromJSON(ctx, content, cloudScope)
}

// vertexBoth asks for a whole answer and for a stream, and wants the same text and usage of both.
func vertexBoth(ctx context.Context, client *genai.Client, model string, contents []*genai.Content, config *genai.GenerateContentConfig) (*genai.GenerateContentResponse, error) {
	whole, err := client.Models.GenerateContent(ctx, model, contents, config)
	if err != nil {
		return nil, err
	}
	text, last := "", new(genai.GenerateContentResponse)
	for chunk, err := range client.Models.GenerateContentStream(ctx, model, contents, config) {
		if err != nil {
			return nil, err
		}
		text, last = text+chunk.Text(), chunk
	}
	if whole.UsageMetadata == nil || whole.UsageMetadata.TrafficType == "" || whole.UsageMetadata.CandidatesTokenCount == 0 {
		return nil, fmt.Errorf("the usage is %+v", whole.UsageMetadata)
	}
	if text != whole.Text() || !reflect.DeepEqual(last.UsageMetadata, whole.UsageMetadata) || last.Candidates[0].FinishReason != whole.Candidates[0].FinishReason {
		return nil, fmt.Errorf("whole %q %+v, streamed %q %+v", whole.Text(), whole.UsageMetadata, text, last.UsageMetadata)
	}
	return whole, nil
}

func vertexQuestion(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	wanted := newToken()
	answer, err := vertexBoth(ctx, client, model, genai.Text("[[text: it is "+wanted+" and more]] [[chunks: 3]]"), &genai.GenerateContentConfig{
		SystemInstruction: genai.NewContentFromText("be short", genai.RoleUser), Labels: map[string]string{"team": "a"},
		Temperature: genai.Ptr[float32](0.5), SafetySettings: []*genai.SafetySetting{{Category: genai.HarmCategoryHarassment, Threshold: genai.HarmBlockThresholdBlockNone}},
	})
	if err != nil {
		return err
	}
	if answer.Candidates[0].FinishReason != genai.FinishReasonStop || answer.ModelVersion == "" || answer.ResponseID == "" {
		return fmt.Errorf("%+v", answer)
	}
	if err := holds(answer.Text(), wanted); err != nil {
		return err
	}
	answer, err = vertexBoth(ctx, client, older, genai.Text("[[tokens: 50]]"), &genai.GenerateContentConfig{MaxOutputTokens: 5,
		ThinkingConfig: &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](0)}})
	if err != nil || answer.Candidates[0].FinishReason != genai.FinishReasonMaxTokens {
		return fmt.Errorf("%+v, %v", answer, err)
	}
	return nil
}

func vertexLoop(model string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := vertexClient(ctx)
		if err != nil {
			return err
		}
		v := &vault{}
		chat, results, err := genaiAsk(ctx, client, v, model, openTwo)
		if err != nil {
			return err
		}
		answer, err := chat.SendMessage(ctx, results...)
		if err != nil {
			return err
		}
		return v.quoted(answer.Text(), "north", "south")
	}
}

// vertexCredentials asks with each way to sign in: files of Google's types, and a key.
func vertexCredentials(ctx context.Context) error {
	contents := genai.Text("[[text: hello]]")
	for _, kind := range []string{"service_account", "authorized_user", "impersonated_service_account", "external_account"} {
		content, err := googleFile(ctx, kind)
		if err != nil {
			return err
		}
		found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudScope}, CredentialsJSON: content, TokenURL: simulated + "/token"})
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		client, err := genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: cloudProject, Location: "global",
			Credentials: found, HTTPOptions: genai.HTTPOptions{BaseURL: simulated}})
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		answer, err := client.Models.GenerateContent(ctx, model, contents, nil)
		if err != nil || answer.Text() != "hello" {
			return fmt.Errorf("%s: %+v, %w", kind, answer, err)
		}
	}
	express, err := genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendVertexAI, APIKey: key, HTTPOptions: genai.HTTPOptions{BaseURL: simulated, APIVersion: "v1"}})
	if err != nil {
		return err
	}
	answer, err := vertexBoth(ctx, express, model, contents, nil)
	if err != nil || answer.Text() != "hello" {
		return fmt.Errorf("a key: %+v, %w", answer, err)
	}
	return nil
}

// vertexLocations has the library choose the host of a location.
func vertexLocations(ctx context.Context) error {
	account, err := serviceAccount(ctx)
	if err != nil {
		return err
	}
	for location, host := range map[string]string{"global": "aiplatform.googleapis.com", "us": "aiplatform.us.rep.googleapis.com",
		"eu": "aiplatform.eu.rep.googleapis.com", "europe-west4": "europe-west4-aiplatform.googleapis.com"} {
		hosts := &googleHosts{}
		client, err := genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: cloudProject, Location: location, HTTPClient: authorized(hosts, account)})
		if err != nil {
			return err
		}
		answer, err := client.Models.GenerateContent(ctx, older, genai.Text("[[text: hello]]"), nil)
		if err != nil || answer.Text() != "hello" || !slices.Equal(hosts.hosts, []string{host}) {
			return fmt.Errorf("%s at %q: %+v, %w", location, hosts.hosts, answer, err)
		}
		_, err = client.Models.GenerateContent(ctx, model, genai.Text("[[text: hello]]"), nil)
		if regional := location == "europe-west4"; regional != isGoogle(err, 404, "NOT_FOUND", "was not found or your project does not have access to it") || !regional && err != nil {
			return fmt.Errorf("%s: %w", location, err)
		}
	}
	return nil
}

func vertexFormat(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	config := &genai.GenerateContentConfig{ResponseMIMEType: "application/json", ResponseSchema: &genai.Schema{Type: genai.TypeObject,
		Properties: map[string]*genai.Schema{"city": {Type: genai.TypeString}}, Required: []string{"city"}}}
	answer, err := vertexBoth(ctx, client, model, genai.Text("a city"), config)
	if err != nil {
		return err
	}
	return holds(answer.Text(), `"city"`)
}

// vertexEmbeddings uses both methods, between which the library chooses by the name of the model.
func vertexEmbeddings(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		model      string
		texts      []string
		dimensions int
	}{
		{"gemini-embedding-001", []string{"a cat"}, 3072}, {"text-embedding-005", []string{"a cat", "a dog", "a cat"}, 768}, {"gemini-embedding-2", []string{"a cat"}, 3072},
	} {
		var contents []*genai.Content
		for _, text := range c.texts {
			contents = append(contents, genai.NewContentFromText(text, genai.RoleUser))
		}
		for _, size := range []int{c.dimensions, 128} {
			config := &genai.EmbedContentConfig{TaskType: "RETRIEVAL_DOCUMENT", Title: "animals"}
			if size != c.dimensions {
				config.OutputDimensionality = genai.Ptr(int32(size))
			}
			answer, err := client.Models.EmbedContent(ctx, c.model, contents, config)
			if err != nil {
				return fmt.Errorf("%s: %w", c.model, err)
			}
			if len(answer.Embeddings) != len(c.texts) {
				return fmt.Errorf("%s: %d embeddings", c.model, len(answer.Embeddings))
			}
			for _, e := range answer.Embeddings {
				if len(e.Values) != size || e.Statistics == nil || e.Statistics.TokenCount == 0 || e.Statistics.Truncated {
					return fmt.Errorf("%s: %d values, %+v", c.model, len(e.Values), e.Statistics)
				}
			}
			if all := answer.Embeddings; len(all) == 3 && (!slices.Equal(all[0].Values, all[2].Values) || slices.Equal(all[0].Values, all[1].Values)) {
				return fmt.Errorf("%s: the vectors are not in the order of the texts", c.model)
			}
		}
	}
	_, err = client.Models.EmbedContent(ctx, "gemini-embedding-001", append(genai.Text("a"), genai.Text("b")...), nil)
	if !isGoogle(err, 400, "INVALID_ARGUMENT", "instance(s) is not allowed") {
		return fmt.Errorf("two instances: %w", err)
	}
	return nil
}

func vertexTokens(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	contents := genai.Text("how many tokens are these? [[text: some]]")
	answer, err := client.Models.GenerateContent(ctx, model, contents, nil)
	if err != nil {
		return err
	}
	plain, err := client.Models.CountTokens(ctx, model, contents, nil)
	if err != nil {
		return err
	}
	more, err := client.Models.CountTokens(ctx, model, contents, &genai.CountTokensConfig{SystemInstruction: genai.NewContentFromText("a long instruction", genai.RoleUser),
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: vaultName, Description: vaultAbout, ParametersJsonSchema: vaultSchema()}}}}})
	if err != nil || plain.TotalTokens != answer.UsageMetadata.PromptTokenCount || more.TotalTokens <= plain.TotalTokens {
		return fmt.Errorf("charged %+v, counted %+v and %+v, %w", answer.UsageMetadata, plain, more, err)
	}
	return nil
}

func vertexModels(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	var names []string
	page, err := client.Models.List(ctx, &genai.ListModelsConfig{PageSize: 5})
	for err == nil {
		for _, m := range page.Items {
			names = append(names, m.Name)
		}
		page, err = page.Next(ctx)
	}
	if !errors.Is(err, genai.ErrPageDone) {
		return err
	}
	if len(names) < 10 || !slices.Contains(names, "publishers/google/models/"+model) {
		return fmt.Errorf("models %q", names)
	}
	one, err := client.Models.Get(ctx, model, nil)
	if err != nil || one.Name != "publishers/google/models/"+model {
		return fmt.Errorf("%+v, %w", one, err)
	}
	return nil
}

// isGoogle reports whether an error is one of Google's, with this text or detail.
func isGoogle(err error, code int, status, text string) bool {
	e, ok := errors.AsType[genai.APIError](err)
	return ok && e.Code == code && e.Status == status && strings.Contains(fmt.Sprint(e.Message, e.Details), text)
}

func vertexErrors(ctx context.Context) error {
	client, err := vertexClient(ctx)
	if err != nil {
		return err
	}
	ask := func(client *genai.Client, model string) error {
		_, err := client.Models.GenerateContent(ctx, model, genai.Text("hello"), nil)
		for _, streamed := range client.Models.GenerateContentStream(ctx, model, genai.Text("hello"), nil) {
			if fmt.Sprint(err) != fmt.Sprint(streamed) {
				return fmt.Errorf("whole %v, streamed %v", err, streamed)
			}
		}
		return err
	}
	if err := ask(client, missing); !isGoogle(err, 404, "NOT_FOUND", "projects/sim-vertex/locations/global/publishers/google/models/"+missing) {
		return fmt.Errorf("a model that is missing: %w", err)
	}
	account, err := serviceAccount(ctx)
	if err != nil {
		return err
	}
	for project, text := range map[string]string{"sim-disabled": "SERVICE_DISABLED", "another": "IAM_PERMISSION_DENIED"} {
		other, err := genai.NewClient(ctx, &genai.ClientConfig{Backend: genai.BackendVertexAI, Project: project, Location: "global", HTTPClient: authorized(&googleHosts{}, account)})
		if err != nil {
			return err
		}
		if err := ask(other, model); !isGoogle(err, 403, "PERMISSION_DENIED", text) {
			return fmt.Errorf("project %s: %w", project, err)
		}
	}
	for do, want := range map[string]struct {
		code   int
		status string
		text   string
	}{
		"unauthorized": {401, "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED"}, "capacity_429": {429, "RESOURCE_EXHAUSTED", "Resource exhausted"},
		"quota_exhausted": {429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform"}, "capacity": {503, "UNAVAILABLE", "overloaded"},
	} {
		if err := fail(ctx, map[string]any{"do": do, "times": 1, "when": map[string]string{"path": "/publishers/google"}}); err != nil {
			return err
		}
		_, err := client.Models.GenerateContent(ctx, model, genai.Text("hello"), nil)
		if !isGoogle(err, want.code, want.status, want.text) {
			return fmt.Errorf("%s: %w", do, err)
		}
	}
	return nil
}
