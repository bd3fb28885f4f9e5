package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quietServer is the provider, in this process.
func quietServer(t *testing.T) *httptest.Server {
	server := httptest.NewUnstartedServer(new(provider).mux())
	t.Cleanup(server.Close)
	return server
}

func TestQuietStreamsStayOpen(t *testing.T) {
	server := quietServer(t)
	server.Start()
	secure, err := makeCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	streams, err := openQuiet(t.Context(), 50, server.Listener.Addr().String(), newQuestion(gemini, quietModel, 1000))
	defer closeAll(streams)
	if err != nil || len(streams) != 50 {
		t.Fatalf("%d streams, %v", len(streams), err)
	}
	if held, err := secure.askHeld(t.Context(), server.URL); held != 50 || err != nil {
		t.Errorf("the provider holds %d, %v", held, err)
	}
}

func TestOpeningStreamsStopsAtTheFirstError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	streams, err := openQuiet(t.Context(), 1000, server.Listener.Addr().String(), newQuestion(gemini, quietModel, 1000))
	if len(streams) != 0 || err == nil {
		t.Errorf("%d streams, %v", len(streams), err)
	}
}

func TestProviderBehindTLSWantsHTTP2(t *testing.T) {
	dir := t.TempDir()
	secure, err := makeCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{secure.certificate, secure.key} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(file) != dir {
			t.Errorf("%s: %v", file, err)
		}
	}
	server := quietServer(t)
	server.Config.Handler = onlyHTTP2(server.Config.Handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	for version, want := range map[int]int{1: http.StatusHTTPVersionNotSupported, 2: http.StatusOK} {
		client := server.Client()
		transport := client.Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.NextProtos = nil // Protocols decides
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(version == 1)
		transport.Protocols.SetHTTP2(version == 2)
		client.Transport = transport
		resp, err := client.Post(server.URL+"/v1beta/models/"+quickModel+":streamGenerateContent", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != version {
			t.Errorf("HTTP/%d: %s over %s", version, resp.Status, resp.Proto)
		}
		transport.CloseIdleConnections()
	}
}

func TestQuietStreamsAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		quiet  quiet
		broken bool
		lines  []string
	}{
		"light": {quiet{"Gemini", 1 << 10, overHTTP2, 1024, 1024, 10 << 20, 49 << 20, 60 << 20, false}, false, []string{
			"| memory for a quiet stream, 1024 of them, Gemini, 1 KB, HTTP/2, TLS to the provider | ≤ 40.0 KB | 39.0 KB | aim reached |",
			"| perigee | Gemini | 1 KB | HTTP/2, TLS | 1024 | 10.0 | 49.0 | 60.0 | 39.0 |"}},
		"heavy": {quiet{"Chat", 1 << 10, overHTTP1, 2048, 1024, 10 << 20, 51 << 20, 60 << 20, false}, false, []string{
			"| ≤ 40.0 KB | 41.0 KB | aim not reached |",
			"| perigee | Chat | 1 KB | HTTP/1.1 | 1024, for the system's limit of open files | 10.0 | 51.0 | 60.0 | 41.0 |"}},
		"large bodies": {quiet{"Chat", 100 << 10, overHTTP1, 1024, 1024, 10 << 20, 400 << 20, 400 << 20, false}, false, []string{"| – | 390.0 KB | for information |"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := goodReport()
			r.streams = []quiet{test.quiet}
			text := r.markdown()
			for _, line := range test.lines {
				if r.broken() != test.broken || !strings.Contains(text, line) {
					t.Errorf("broken: %v; want %q in\n%s", r.broken(), line, text)
				}
			}
		})
	}
}
