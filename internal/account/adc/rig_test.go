package adc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A tokenServer refuses every request that Google's documentation does not describe. Its tokens are
// numbered: access-1 and so on.
type tokenServer struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu      sync.Mutex
	issued  int
	refresh string // the refresh token that is accepted
	status  int    // of every answer, with body; 0 answers
	body    string
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &tokenServer{key: key, refresh: "refresh-of-ada"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if s.status != 0 {
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
		return
	}
	if why := s.check(r, string(body)); why != "" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":"invalid_request","error_description":%q}`, why)
		return
	}
	s.issued++
	switch {
	case strings.HasSuffix(r.URL.Path, ":generateAccessToken"):
		_, _ = fmt.Fprintf(w, `{"accessToken":"access-%d","expireTime":%q}`, s.issued, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	case r.URL.Path == "/computeMetadata/v1/project/project-id":
		s.issued--
		_, _ = io.WriteString(w, "metadata-project\n")
	case r.URL.Path == "/subject":
		s.issued--
		_, _ = io.WriteString(w, `{"id":"subject-token"}`)
	default:
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","expires_in":3600,"token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, s.issued)
	}
}

// check returns what is wrong with a request, or "".
func (s *tokenServer) check(r *http.Request, body string) string {
	if agent := r.Header.Get("User-Agent"); agent != "perigee/test" && !strings.HasPrefix(r.URL.Path, "/computeMetadata/") {
		return "User-Agent " + agent
	}
	form, _ := url.ParseQuery(body)
	switch {
	case strings.HasSuffix(r.URL.Path, ":generateAccessToken"):
		var in struct {
			Scope    []string
			Lifetime string
		}
		if json.Unmarshal([]byte(body), &in) != nil || len(in.Scope) != 1 || in.Scope[0] != scope || in.Lifetime != "3600s" {
			return "body " + body
		}
		if got := r.Header.Get("Authorization"); got != fmt.Sprintf("Bearer access-%d", s.issued) {
			return "Authorization " + got
		}
		return ""
	case strings.HasPrefix(r.URL.Path, "/computeMetadata/"):
		if r.Header.Get("Metadata-Flavor") != "Google" || r.Method != http.MethodGet {
			return "no Metadata-Flavor"
		}
		return ""
	case r.URL.Path == "/subject":
		if r.Header.Get("X-Identity") != "yes" {
			return "no header of the identity provider"
		}
		return ""
	case r.URL.Path == "/sts":
		return differs(form, map[string]string{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": "//iam.googleapis.com/pool",
			"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "subject_token": "subject-token", "scope": scope,
			"requested_token_type": "urn:ietf:params:oauth:token-type:access_token"})
	case r.URL.Path == "/workforce":
		if id, secret, _ := r.BasicAuth(); id != "ada-client" || secret != "ada-secret" {
			return "no credentials of the client"
		}
		return differs(form, map[string]string{"grant_type": "refresh_token", "refresh_token": s.refresh})
	case form.Get("grant_type") == "refresh_token":
		return differs(form, map[string]string{"client_id": "ada-client", "client_secret": "ada-secret", "refresh_token": s.refresh})
	case form.Get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer":
		return s.checkAssertion(form.Get("assertion"))
	}
	return "grant_type " + form.Get("grant_type")
}

func differs(form url.Values, want map[string]string) string {
	for name, value := range want {
		if form.Get(name) != value {
			return name + " " + form.Get(name)
		}
	}
	return ""
}

// checkAssertion verifies the signature and the claims of a service account.
func (s *tokenServer) checkAssertion(assertion string) string {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return "not a JWT"
	}
	var header struct{ Alg, Typ, Kid string }
	var claims struct {
		Iss, Sub, Scope, Aud string
		Iat, Exp             int64
	}
	for i, into := range []any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(text, into) != nil {
			return "a part that cannot be read"
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := time.Now().Unix()
	switch {
	case err != nil || rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, digest[:], signature) != nil:
		return "Invalid JWT Signature."
	case header.Alg != "RS256" || header.Kid != "key-1":
		return fmt.Sprintf("header %+v", header)
	case claims.Iss != "robot@ada-project.iam.gserviceaccount.com" || claims.Scope != scope || claims.Aud != s.URL+"/token":
		return fmt.Sprintf("claims %+v", claims)
	case claims.Iat > now || claims.Exp <= now || claims.Exp-claims.Iat > 3600:
		return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
	}
	return ""
}

// count returns how many tokens were issued.
func (s *tokenServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued
}

// answers makes the server answer everything with a status and a body.
func (s *tokenServer) answers(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

func (s *tokenServer) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s.key)}))
}

// curveKey returns a private key of a kind that service accounts do not have.
func curveKey(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: content}))
}

func (s *tokenServer) user() map[string]any {
	return map[string]any{"type": "authorized_user", "client_id": "ada-client", "client_secret": "ada-secret", "refresh_token": "refresh-of-ada",
		"token_uri": s.URL + "/token", "quota_project_id": "ada-quota"}
}

func (s *tokenServer) service() map[string]any {
	return map[string]any{"type": "service_account", "project_id": "ada-project", "private_key_id": "key-1", "private_key": s.pem(),
		"client_email": "robot@ada-project.iam.gserviceaccount.com", "token_uri": s.URL + "/token"}
}

func (s *tokenServer) external(source map[string]any) map[string]any {
	return map[string]any{"type": "external_account", "audience": "//iam.googleapis.com/pool", "token_url": s.URL + "/sts",
		"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "credential_source": source}
}

// writeFile writes a credentials file, and returns its path.
func writeFile(t *testing.T, content any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.json")
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sourceOf returns a source of the credentials in a file.
func sourceOf(path string) *Source {
	s := New(FromFile + path)
	s.Use(http.DefaultTransport, "perigee/test")
	return s
}
