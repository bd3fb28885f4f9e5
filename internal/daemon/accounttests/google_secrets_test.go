package accounttests

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"perigee/internal/testing/daemontest"
)

// Secrets of Google credentials that a client sends, and tokens that Vertex AI repeats, are in no file
// of perigee: neither those in use nor those that have been replaced.
func TestGoogleSecretsAreNotRecorded(t *testing.T) {
	t.Parallel()
	var issued atomic.Int32
	token := func(n int32) string { return fmt.Sprintf("issued+by/the-server=%d;", n) }
	provider := daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3599}`, token(issued.Add(1)))
		case strings.Contains(r.URL.Path, "gemini-2.5-flash"):
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":{"code":401,"message":"refused: %s","status":"UNAUTHENTICATED"}}`, r.Header.Get("Authorization"))
		default:
			_, _ = io.WriteString(w, daemontest.LastEvent)
		}
	}))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	dir, config := t.TempDir(), "upstreams:\n"
	var files [][]byte
	for name, file := range map[string]map[string]string{
		"person": {"type": "authorized_user", "client_id": "ada", "client_secret": "client+secret/of-ada", "refresh_token": "refresh+token/of-ada"},
		"robot":  {"type": "service_account", "client_email": "robot@ada.example", "private_key": private},
	} {
		file["token_uri"], file["project_id"] = provider+"/token", "ada-project"
		content, err := json.Marshal(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, content)
		config += fmt.Sprintf("  - {name: %s, kind: vertex, url: %q, credentials: %q}\n", name, provider, "file:"+filepath.Join(dir, name))
	}
	g := daemontest.Start(t, config, nil)
	ask := func(model, text string) {
		nested, _ := json.Marshal(text)
		body, _ := json.Marshal(map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{
			map[string]string{"text": "recorded: " + text}, map[string]string{"text": string(nested)}}}}})
		resp := daemontest.PostJSON(t, g, "/v1beta/models/"+model+":generateContent", string(body))
		if answer := daemontest.Rest(t, resp); strings.Contains(answer, "issued") {
			t.Errorf("%s: the client gets %s", model, answer)
		}
	}
	ask("person/gemini-3-flash", string(files[0])) // no token has been requested before
	ask("robot/gemini-3-flash", string(files[1]))
	for range 3 {
		ask("person/gemini-2.5-flash", "refused")
	}
	for n := range issued.Load() {
		ask("robot/gemini-3-flash", token(n+1))
	}
	calls, err := g.Stop(t.Context())
	if want := 5 + int(issued.Load()); err != nil || len(calls) != want || issued.Load() < 3 {
		t.Fatalf("%d calls are recorded, want %d; %d tokens (%v)", len(calls), want, issued.Load(), err)
	}
	secrets := []string{"client+secret/of-ada", "refresh+token/of-ada", "issued+by"}
	for line := range strings.Lines(private) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && len(line) == 64 {
			secrets = append(secrets, line)
		}
	}
	prompts := 0
	err = filepath.WalkDir(g.Config.DataDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s has %s", path, secret)
			}
		}
		if bytes.Contains(content, []byte("recorded: ")) && bytes.Contains(content, []byte("[redacted]")) {
			prompts++
		}
		return err
	})
	if err != nil || prompts < 2+int(issued.Load()) || len(secrets) < 20 {
		t.Errorf("%d prompts with %d secrets were found (%v)", prompts, len(secrets), err)
	}
}
