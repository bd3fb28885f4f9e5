package oauth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
)

// A sign-in server that repeats what it was sent must not make us repeat it, too.
func TestServerThatEchoesGivesNothingAway(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_request","error_description":"what is ` + r.Form.Encode() + `?"}`))
	}))
	defer server.Close()
	client := NewClient(Options{TokenURL: server.URL, ClientID: "id", ClientSecret: perigee.NewSecret("all-lower-secret")})
	_, err := client.Refresh(t.Context(), perigee.NewSecret("all-lower-refresh"))
	if err == nil || strings.Contains(err.Error(), "all-lower") {
		t.Errorf("got %v", err)
	}
}
