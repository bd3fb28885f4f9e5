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

// A short secret is taken out as well, and leaves the rest of the answer as it was.
func TestShortSecretsAreRedactedAsWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"invalid_grant","error_description":"i i=i&x is not good, nor is i"}`: `{"error":"invalid_grant","error_description":"[redacted] [redacted]=[redacted]&x is not good, nor is [redacted]"}`,
		"i": "[redacted]", "": "", "iii-i": "iii-i",
	} {
		if got := string(redact([]byte(body), "i")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := string(redact([]byte("xlong-enoughx"), "long-enough")); got != "x[redacted]x" {
		t.Errorf("got %s", got)
	}
}
