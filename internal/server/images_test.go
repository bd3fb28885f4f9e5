package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/imagestore"
)

func drawing(mime, data string) script {
	return func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: mime, Data: data}}, nil) &&
			yield(end, nil)
	}
}

// draw asks for a picture and returns the answer.
func draw(api http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/messages",
		strings.NewReader(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a cat"}]}`))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

var link = regexp.MustCompile(`!\[[^\]]*\]\(([^)]*)\)`)

func TestDrawnImagesAreServed(t *testing.T) {
	for _, test := range []struct{ mime, disposition, served string }{
		{"image/png", "", "image/png"},
		{"image/svg+xml", "attachment", "application/octet-stream"},
		{"text/html", "attachment", "application/octet-stream"},
	} {
		api := server.New(server.Options{Upstream: drawing(test.mime, "aGVsbG8="),
			Images: imagestore.New(imagestore.Options{Dir: t.TempDir()})},
			server.Settings{MaxBody: 1 << 20})
		w := draw(api, nil)
		found := link.FindStringSubmatch(w.Body.String())
		if found == nil || !strings.HasPrefix(found[1], "http://example.com/v1/images/") {
			t.Fatalf("no link in %s", w.Body)
		}
		if want := "mapped image to " + strings.TrimPrefix(found[1], "http://example.com"); w.Header().Get("X-Perigee-Notes") != want {
			t.Errorf("notes %q, want %q", w.Header().Get("X-Perigee-Notes"), want)
		}
		w = httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, found[1], nil))
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.String() != "hello" || h.Get("Content-Type") != test.served ||
			h.Get("Content-Disposition") != test.disposition ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Cache-Control"), "private") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: got %d %q, %v", test.mime, w.Code, w.Body, h)
		}
	}
}

func TestImagesNeedAKeyWhereThereAreKeys(t *testing.T) {
	api := server.New(server.Options{Upstream: drawing("image/png", "aGVsbG8="),
		Images: imagestore.New(imagestore.Options{Dir: t.TempDir()})},
		server.Settings{MaxBody: 1 << 20, Keys: []server.Key{{Name: "k", Secret: perigee.NewSecret("letmein1")}}})
	withKey := func(r *http.Request) { r.Header.Set("X-Api-Key", "letmein1") }
	url := link.FindStringSubmatch(draw(api, withKey).Body.String())[1]
	if strings.Contains(url, "letmein1") {
		t.Errorf("the key is in the link %s", url)
	}
	for _, test := range []struct {
		query string
		want  int
	}{{"", http.StatusUnauthorized}, {"?key=wrong", http.StatusUnauthorized}, {"?key=letmein1", http.StatusOK}} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url+test.query, nil))
		if w.Code != test.want {
			t.Errorf("%q: got %d", test.query, w.Code)
		}
	}
}

// The link has the host of the request. Headers of proxies are not believed.
func TestLinksLeadBack(t *testing.T) {
	api := server.New(server.Options{Upstream: drawing("image/png", "aGVsbG8="),
		Images: imagestore.New(imagestore.Options{Dir: t.TempDir()})},
		server.Settings{MaxBody: 1 << 20})
	for want, change := range map[string]func(*http.Request){
		"http://10.0.0.7:8741/v1/images/": func(r *http.Request) { r.Host = "10.0.0.7:8741" },
		"http://[::1]:8741/v1/images/":    func(r *http.Request) { r.Host = "[::1]:8741" },
		"https://gate.example/v1/images/": func(r *http.Request) { r.Host, r.TLS = "gate.example", &tls.ConnectionState{} },
		"http://plain.example/v1/images/": func(r *http.Request) {
			r.Host = "plain.example"
			r.Header.Set("X-Forwarded-Host", "evil.example")
			r.Header.Set("X-Forwarded-Proto", "https")
		},
		"/v1/images/": func(r *http.Request) { r.Host = "x)[evil](http://evil.example" },
	} {
		if body := draw(api, change).Body.String(); !strings.Contains(body, "]("+want) {
			t.Errorf("want a link to %s in %s", want, body)
		}
	}
}

// A fullImageStore is a store that has no room.
type fullImageStore struct{}

func (fullImageStore) Save(string, []byte) (string, error) {
	return "", errors.New("no space left on device")
}
func (fullImageStore) Open(string) (*os.File, string, error) {
	return nil, "", errors.New("input/output error")
}

func TestImageThatCannotBeKeptStandsInTheAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		images server.ImageStore
		data   string
		note   string
	}{
		"no room":    {fullImageStore{}, "aGVsbG8=", "mapped image to a data URI"},
		"not base64": {imagestore.New(imagestore.Options{Dir: t.TempDir()}), "***", "mapped image to a data URI"},
		"no store":   {nil, "aGVsbG8=", ""},
	} {
		api := server.New(server.Options{Upstream: drawing("image/png", test.data), Images: test.images},
			server.Settings{MaxBody: 1 << 20})
		w := draw(api, nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "](data:image/png;base64,"+test.data+")") || w.Header().
			Get("X-Perigee-Notes") != test.note {
			t.Errorf("%s: got %d: %s; notes %q", name, w.Code, w.Body, w.Header().Get("X-Perigee-Notes"))
		}
	}
	for _, test := range []struct {
		images server.ImageStore
		want   int
	}{{fullImageStore{}, http.StatusInternalServerError}, {nil, http.StatusNotImplemented}} {
		api := server.New(server.Options{Upstream: drawing("image/png", ""), Images: test.images}, server.Settings{})
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/images/aaaaaaaaaaaaaaaa.png", nil))
		if w.Code != test.want {
			t.Errorf("got %d: %s", w.Code, w.Body)
		}
	}
}

// One answer with thousands of pictures stores some of them and carries the rest itself, so that it
// does not displace the pictures of all other answers.
func TestOneAnswerKeepsFewImages(t *testing.T) {
	const drawn = 150
	many := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		ok := yield(begin, nil)
		for range drawn {
			ok = ok && yield(perigee.Event{Kind: perigee.EventBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "aGVsbG8="}}, nil)
		}
		_ = ok && yield(end, nil)
	})
	images := imagestore.New(imagestore.Options{Dir: t.TempDir()})
	api := server.New(server.Options{Upstream: many, Images: images}, server.Settings{MaxBody: 1 << 20})
	body := draw(api, nil).Body.String()
	if kept, inline := strings.Count(body, "](http://example.com/v1/images/"),
		strings.Count(body, "](data:image/png;base64,"); kept != 100 || inline != drawn-100 {
		t.Errorf("%d pictures are kept and %d are in the answer, want 100 and %d", kept, inline, drawn-100)
	}
	if n, _ := images.Size(); n != 100 {
		t.Errorf("the store has %d", n)
	}
}
