package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
)

// sendRaw returns what the provider answered.
func sendRaw(t *testing.T, u *Upstream, r *perigee.RawRequest) (answer string, err error) {
	t.Helper()
	r.Model = "m/1"
	err = u.SendRaw(t.Context(), r, func(a perigee.RawAnswer) error {
		raw, err := io.ReadAll(a.Body)
		answer = fmt.Sprintf("%d %s %s", a.Status, a.ContentType, raw)
		return err
	})
	return answer, err
}

func TestRecordedRequestsAreSentAsTheyAre(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		if strings.Contains(string(body), "bad") {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, "%s %s %s", r.URL.RequestURI(), r.Header.Get("X-Goog-Api-Key"), body)
	}))
	defer server.Close()
	u := New(Gemini, Options{URL: server.URL, Keys: []perigee.Secret{perigee.NewSecret("a-fresh-api-key")}})
	defer u.Close()
	const prefix = "200 text/plain /v1beta/models/m%2F1:"
	for _, test := range []struct {
		r    perigee.RawRequest
		want string
	}{
		{perigee.RawRequest{Operation: perigee.OperationGenerate, Stream: true, Sent: []byte(`{}`)}, prefix + "streamGenerateContent?alt=sse a-fresh-api-key {}"},
		{perigee.RawRequest{Operation: perigee.OperationGenerate, Sent: []byte(`{ }`)}, prefix + "generateContent a-fresh-api-key { }"},
		{perigee.RawRequest{Operation: perigee.OperationCount, Sent: []byte(`{}`)}, prefix + "countTokens a-fresh-api-key {}"},
		{perigee.RawRequest{Operation: perigee.OperationEmbed, Sent: []byte(`{}`)}, prefix + "embedContent a-fresh-api-key {}"},
		{perigee.RawRequest{Operation: perigee.OperationEmbed, Sent: []byte(`{"requests":[]}`)}, prefix + `batchEmbedContents a-fresh-api-key {"requests":[]}`},
		// An error is an answer, without the key that the provider repeats.
		{perigee.RawRequest{Operation: perigee.OperationGenerate, Sent: []byte(`"bad"`)}, `400 text/plain /v1beta/models/m%2F1:generateContent [redacted] "bad"`},
	} {
		if answer, err := sendRaw(t, u, &test.r); err != nil || answer != test.want {
			t.Errorf("got %s, %v\nwant %s", answer, err, test.want)
		}
	}
	server.Close()
	if answer, err := sendRaw(t, u, &perigee.RawRequest{Operation: perigee.OperationGenerate}); perigee.AsError(err) == nil || answer != "" {
		t.Errorf("no provider: %q, %v", answer, err)
	}
}
