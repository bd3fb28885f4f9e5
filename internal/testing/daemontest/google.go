package daemontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// GoogleCredentials returns the setting credentials of an upstream of kind vertex: a file with a token
// server that issues google-token-1, google-token-2 and so on, for the project ada-project.
func GoogleCredentials(t *testing.T) string {
	t.Helper()
	var issued atomic.Int32
	server := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"google-token-%d","token_type":"Bearer","expires_in":3599}`, issued.Add(1))
	}))
	content, err := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "ada-client", "client_secret": "ada-secret",
		"refresh_token": "refresh-of-ada", "token_uri": server, "quota_project_id": "ada-project"})
	path := filepath.Join(t.TempDir(), "google.json")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "file:" + path
}
