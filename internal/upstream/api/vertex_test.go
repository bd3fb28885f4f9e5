package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/store/config"
)

func TestAddressesOfVertex(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_LOCATION", "")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	keys := []perigee.Secret{perigee.NewSecret("express")}
	for _, test := range []struct {
		upstream    config.Upstream
		model, want string
	}{
		{config.Upstream{}, "gemini-3-flash", "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-3-flash:generateContent"},
		{config.Upstream{Location: "us"}, "gemini-3-flash", "https://aiplatform.us.rep.googleapis.com/v1beta1/publishers/google/models/gemini-3-flash:generateContent"},
		{config.Upstream{Location: "europe-west4", URL: "https://aiplatform.googleapis.com"}, "google/gemini-3-flash", "https://europe-west4-aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-3-flash:generateContent"},
		{config.Upstream{Location: "eu", URL: "https://private.example.com/"}, "claude-opus-5", "https://private.example.com/v1/publishers/anthropic/models/claude-opus-5:rawPredict"},
		{config.Upstream{}, "anthropic/claude-opus-4-5-20251101", "https://aiplatform.googleapis.com/v1/publishers/anthropic/models/claude-opus-4-5@20251101:rawPredict"},
		{config.Upstream{}, "claude-opus-4-5@20251101", "https://aiplatform.googleapis.com/v1/publishers/anthropic/models/claude-opus-4-5@20251101:rawPredict"},
		{config.Upstream{Keys: keys}, "gemini-3-flash", "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-3-flash:generateContent"},
	} {
		u := New(newVertex(test.upstream), Options{URL: test.upstream.URL, Keys: test.upstream.Keys})
		w := u.wire(&perigee.Request{Model: test.model})
		if got := w.target(u.opts.URL, test.model, false); got != test.want {
			t.Errorf("%s at %q: %s, want %s", test.model, test.upstream.Location, got, test.want)
		}
		u.Close()
	}
	t.Setenv("GOOGLE_CLOUD_LOCATION", "asia-east1")
	if got := newVertex(config.Upstream{}).address; got != "https://asia-east1-aiplatform.googleapis.com" {
		t.Errorf("with a location in the environment: %s", got)
	}
}

// Names that cannot be models of an upstream are refused without a request, so that the next upstream
// is asked.
func TestModelsThatVertexLacks(t *testing.T) {
	keys := []perigee.Secret{perigee.NewSecret("express")}
	for _, test := range []struct {
		keys  []perigee.Secret
		model string
		lacks bool
	}{
		{nil, "", true}, {nil, "/", true}, {nil, "google/", true}, {nil, "/gemini-3-flash", true},
		{nil, "gemini-3-flash", false}, {nil, "claude-opus-5", false}, {nil, "meta/llama-4", false},
		{keys, "claude-opus-5", true}, {keys, "anthropic/claude-opus-5", true}, {keys, "gemini-3-flash", false},
	} {
		u := New(newVertex(config.Upstream{Keys: test.keys, Project: "ada"}), Options{Keys: test.keys})
		err := u.offers(test.model)
		if e := perigee.AsError(err); (e != nil) != test.lacks || e != nil && e.Class != perigee.ClassNotFound {
			t.Errorf("%q with %d keys: %v", test.model, len(test.keys), err)
		}
		u.Close()
	}
}

// Each reason for which Google refuses calls has a next step of its own.
func TestErrorsOfVertex(t *testing.T) {
	const info = `,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"REASON","domain":"googleapis.com"}]`
	status := func(text, name, reason string) string {
		details := ""
		if reason != "" {
			details = strings.Replace(info, "REASON", reason, 1)
		}
		return `{"error":{"code":1,"message":"` + text + `","status":"` + name + `"` + details + `}}`
	}
	for _, test := range []struct {
		code       int
		body       string
		class      perigee.Class
		hint       string
		ofMessages bool
	}{
		{429, status("Resource exhausted. Please try again later.", "RESOURCE_EXHAUSTED", ""), perigee.ClassCapacity, "", false},
		{429, status("Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED", ""), perigee.ClassCapacity, "", false},
		{429, status("Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute", "RESOURCE_EXHAUSTED", ""), perigee.ClassExhausted, "", false},
		{403, status("Vertex AI API has not been used in project ada before or it is disabled.", "PERMISSION_DENIED", "SERVICE_DISABLED"), perigee.ClassForbidden, "gcloud services enable aiplatform.googleapis.com", false},
		{403, status("The API requires a quota project, which is not set by default.", "PERMISSION_DENIED", "SERVICE_DISABLED"), perigee.ClassForbidden, "set-quota-project", false},
		{403, status("Caller does not have required permission to use project ada.", "PERMISSION_DENIED", "USER_PROJECT_DENIED"), perigee.ClassForbidden, "set-quota-project", false},
		{403, status("Permission 'aiplatform.endpoints.predict' denied on resource", "PERMISSION_DENIED", "IAM_PERMISSION_DENIED"), perigee.ClassForbidden, "roles/aiplatform.user", false},
		{403, status("This API method requires billing to be enabled.", "PERMISSION_DENIED", "BILLING_DISABLED"), perigee.ClassForbidden, "billing", false},
		{404, status("Publisher Model `projects/ada/locations/us-east1/publishers/google/models/x` was not found or your project does not have access to it.", "NOT_FOUND", ""), perigee.ClassNotFound, "Model Garden", false},
		{400, status("Publisher Model claude-opus-5 is not servable in region us-east1.", "FAILED_PRECONDITION", ""), perigee.ClassNotFound, "set location", false},
		{400, status("Unsupported region for Vertex AI, select from global, us-central1", "INVALID_ARGUMENT", ""), perigee.ClassNotFound, "set location", false},
		{401, status("Request had invalid authentication credentials.", "UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED"), perigee.ClassUnauthenticated, "", false},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"Too many tokens."},"request_id":"req_vrtx_1"}`, perigee.ClassRateLimited, "", true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, perigee.ClassCapacity, "", true},
	} {
		e := decodeVertexError(test.code, []byte(test.body))
		if e.Class != test.class || !strings.Contains(e.Hint, test.hint) || e.Status != test.code || isMessagesError([]byte(test.body)) != test.ofMessages {
			t.Errorf("%d %s: class %s, hint %q", test.code, test.body, e.Class, e.Hint)
		}
		if test.hint == "" && e.Hint != "" {
			t.Errorf("%d %s: hint %q", test.code, test.body, e.Hint)
		}
	}
}

// A host that does not exist is a matter of the location, and not of the network.
func TestHostOfAnUnknownLocation(t *testing.T) {
	unknown := &net.DNSError{Name: "europe-west99-aiplatform.googleapis.com", IsNotFound: true}
	offline := &net.DNSError{Name: unknown.Name, IsTemporary: true}
	for _, test := range []struct {
		location string
		cause    error
		setting  string
	}{
		{"europe-west99", &url.Error{Err: unknown}, "location"},
		{"europe-west99", offline, ""},
		{"europe-west99", &net.DNSError{Name: "oauth2.googleapis.com", IsNotFound: true}, ""},
		{"global", &net.DNSError{Name: "aiplatform.googleapis.com", IsNotFound: true}, ""},
	} {
		e := &perigee.Error{Class: perigee.ClassUnavailable, Cause: test.cause}
		if hint := vertexHint(e, test.location); e.Setting != test.setting || (hint == "") != (test.setting == "") {
			t.Errorf("%s, %v: setting %q, hint %q", test.location, test.cause, e.Setting, hint)
		}
	}
}

func TestVertexWithoutProject(t *testing.T) {
	for _, name := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("APPDATA", t.TempDir())
	u := New(newVertex(config.Upstream{Name: "cloud"}), Options{Name: "cloud", Transport: http.NewFileTransport(http.Dir("."))})
	defer u.Close()
	if why := u.Unusable(); !strings.Contains(why, "application-default login") {
		t.Errorf("unusable: %q", why)
	}
	_, err := u.Models(t.Context())
	if e := perigee.AsError(err); e.Class != perigee.ClassUnauthenticated || !strings.Contains(e.Message, "upstream cloud: no Google credentials") || strings.Contains(e.Public, "/") {
		t.Errorf("%s: %v; clients get %q", e.Class, err, e.Public)
	}
}

// The project of the credentials is part of a path, and is checked like the one of the configuration.
func TestVertexWithAProjectThatIsNone(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "")
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "credentials.json")
	for _, project := range []string{"../../x", "a/b", "..", "A b"} {
		text := fmt.Sprintf(`{"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"r","token_uri":%q,"quota_project_id":%q}`, server.URL+"/token", project)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = nil
		u := New(newVertex(config.Upstream{Name: "cloud", URL: server.URL, Credentials: "file:" + file}), Options{Name: "cloud", URL: server.URL})
		req := requestIn(t, perigee.DialectOpenAIChat, "gemini-3-flash", false, "hi", "")
		_, err := ask(t.Context(), u, req)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassForbidden || e.Setting != "project" || !slices.Equal(paths, []string{"/token"}) {
			t.Errorf("%q: %v after requests to %q", project, err, paths)
		}
		u.Close()
	}
}
