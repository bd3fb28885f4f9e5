package server_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/fetch"
	"perigee/internal/server/membudget"
	"perigee/internal/testing/perigeetest/await"
)

// A mediaRig is an Upstream that remembers what it was asked.
type mediaRig struct{ asked []*perigee.Request }

func (a *mediaRig) Stream(_ context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		req, err := req.Decoded(false)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		a.asked = append(a.asked, req)
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "A cat."}, nil) && yield(end, nil)
	}
}

func (a *mediaRig) CountTokens(_ context.Context, req *perigee.Request) (*perigee.TokenCount, error) {
	req, err := req.Decoded(false)
	if err != nil {
		return nil, err
	}
	a.asked = append(a.asked, req)
	return &perigee.TokenCount{Total: 7}, nil
}

const png = "\x89PNG\x0D\x0A\x1A\x0A"

// pictures is a web site with one picture, and how often it was asked for.
func pictures(t *testing.T, mime string) (url string, fetcher func(allow bool) *fetch.Fetcher, visits func() int) {
	t.Helper()
	n := make(chan int, 1)
	n <- 0
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n <- 1 + <-n
		w.Header().Set("Content-Type", mime)
		_, _ = io.WriteString(w, png)
	}))
	t.Cleanup(site.Close)
	here := netip.MustParseAddrPort(site.Listener.Addr().String())
	fetcher = func(allow bool) *fetch.Fetcher {
		return fetch.New(fetch.Options{Allow: allow, Permit: func(a netip.AddrPort) bool { return a == here }})
	}
	visits = func() int {
		v := await.Receive(t, n, "the number of visits")
		n <- v
		return v
	}
	return site.URL + "/cat.png", fetcher, visits
}

// Fetched media count in the memory budget as the body does, until the request is released. A call
// that finds the budget used up is refused.
func TestFetchedMediaCountInTheMemoryBudget(t *testing.T) {
	const size = 3 << 20
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, png+strings.Repeat("x", size-len(png)))
	}))
	t.Cleanup(site.Close)
	fetcher := fetch.New(fetch.Options{Allow: true, Permit: func(netip.AddrPort) bool { return true }})
	memory := membudget.New(64<<20, nil)
	var held, released int64
	upstream := question(func(_ context.Context, req *perigee.Request, yield func(perigee.Event, error) bool) {
		req, err := req.Decoded(false)
		if err != nil {
			yield(perigee.Event{}, err)
			return
		}
		held = memory.Used()
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "A cat."}, nil)
		req.Release()
		released = memory.Used()
		yield(end, nil)
	})
	api := server.New(server.Options{Upstream: upstream, Memory: memory}, server.Settings{MaxBody: 1 << 20, Fetch: fetcher})
	for path, body := range pointing(site.URL + "/cat.png") {
		if !strings.HasPrefix(path, "/v1/") || strings.Contains(path, "count_tokens") {
			continue
		}
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			return w
		}
		held, released = 0, 0
		if w := ask(); w.Code != http.StatusOK || held < 4*size || held > 5*size || released > held-4*size || memory.Used() != 0 {
			t.Errorf("%s: got %d, with %d bytes held, %d after the release, %d at the end: %s", path, w.Code, held, released, memory.Used(), w.Body)
		}
		var other membudget.Lease
		if err := errors.Join(other.Open(memory, true), other.Grow(40<<20)); err != nil {
			t.Fatal(err)
		}
		held = 0
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("X-Perigee-Class") != string(perigee.ClassCapacity) || held != 0 {
			t.Errorf("%s: got %d: %s", path, w.Code, w.Body)
		}
		if other.Close(); memory.Used() != 0 {
			t.Errorf("%s: %d bytes stay reserved", path, memory.Used())
		}
	}
}

// pointing are requests that point at a picture, in each dialect that has it fetched.
func pointing(url string) map[string]string {
	source := `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"` + url + `"}}]}`
	return map[string]string{
		"/v1/chat/completions":                `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`,
		"/v1/chat/completions?stream":         `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`,
		"/v1/responses":                       `{"model":"m","store":false,"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + url + `"}]}]}`,
		"/v1/messages":                        `{"model":"m","max_tokens":9,"messages":[` + source + `]}`,
		"/v1/messages/count_tokens":           `{"model":"m","messages":[` + source + `]}`,
		"/v1beta/models/m:generateContent":    `{"contents":[{"parts":[{"fileData":{"fileUri":"` + url + `"}}]}]}`,
		"/v1beta/models/m:countTokens":        `{"contents":[{"parts":[{"fileData":{"fileUri":"` + url + `"}}]}]}`,
		"/v1/messages/count_tokens?beta=true": `{"model":"m","messages":[` + source + `]}`,
	}
}

// Clients of dialects in which any URL works get theirs fetched, where that is allowed. In the
// Gemini dialect a URL means itself.
func TestMediaOnTheWebAreFetchedWhereAllowed(t *testing.T) {
	url, fetcher, _ := pictures(t, "image/png")
	for _, allow := range []bool{false, true} {
		for path, body := range pointing(url) {
			upstream := &mediaRig{}
			api := server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 1 << 20, Fetch: fetcher(allow)})
			w := httptest.NewRecorder()
			api.Trusted().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if w.Code != http.StatusOK || len(upstream.asked) != 1 {
				t.Errorf("%s: got %d: %s", path, w.Code, w.Body)
				continue
			}
			p, err := upstream.asked[0].Prompt()
			if err != nil {
				t.Fatal(err)
			}
			part := p.Contents[0].Parts[0]
			if allow && !strings.HasPrefix(path, "/v1beta/") {
				if part.Kind != perigee.PartBlob || part.Blob.MIME != "image/png" || part.Blob.Data != "iVBORw0KGgo=" {
					t.Errorf("%s: the part is %+v", path, part)
				}
			} else if part.Kind != perigee.PartFile || part.File.URI != url {
				t.Errorf("%s: the part is %+v", path, part)
			}
			if notes := w.Header().Get("X-Perigee-Notes"); strings.Contains(notes, "type of") {
				t.Errorf("%s: notes %q", path, notes)
			}
		}
	}
}

// What was set right on the way is told, and under strict it is not done.
func TestMislabelledPictureIsNoted(t *testing.T) {
	url, fetcher, _ := pictures(t, "image/jpeg")
	for _, strict := range []bool{false, true} {
		for path, body := range pointing(url) {
			if strings.HasPrefix(path, "/v1beta/") || strings.Contains(path, "?") {
				continue
			}
			upstream := &mediaRig{}
			api := server.New(server.Options{Upstream: upstream},
				server.Settings{MaxBody: 1 << 20, Fetch: fetcher(true), Strict: strict})
			w := httptest.NewRecorder()
			api.Trusted().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if strict {
				if w.Code != http.StatusBadRequest || len(upstream.asked) > 0 ||
					!strings.Contains(w.Body.String(), "image/jpeg is image/png") {
					t.Errorf("%s, strict: got %d: %s", path, w.Code, w.Body)
				}
				continue
			}
			const want = "repaired type of a file from 127.0.0.1: image/jpeg is image/png"
			if w.Code != http.StatusOK || w.Header().Get("X-Perigee-Notes") != want || upstream.asked[0].Log.Notes()[0].String() != want {
				t.Errorf("%s: got %d, notes %q", path, w.Code, w.Header().Get("X-Perigee-Notes"))
			}
		}
	}
}

// A key that may not ask a model cannot make perigee fetch for it either.
func TestNothingIsFetchedForAKeyThatMayNotAsk(t *testing.T) {
	url, fetcher, visits := pictures(t, "image/png")
	api := server.New(server.Options{Upstream: &mediaRig{}}, server.Settings{
		MaxBody: 1 << 20, Fetch: fetcher(true), Keys: []server.Key{{Name: "k", Secret: perigee.NewSecret("letmein1"),
			Models: []string{"other"}}},
	})
	for path, body := range pointing(url) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("X-Api-Key", "letmein1")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || visits() > 0 {
			t.Errorf("%s: got %d, %d visits", path, w.Code, visits())
		}
	}
}

// A host that cannot be reached is an error of the request, not of the upstream.
func TestUnreachablePictureFailsTheRequest(t *testing.T) {
	_, fetcher, _ := pictures(t, "image/png")
	for path, body := range pointing("http://10.0.0.1/cat.png?token=abc") {
		if strings.HasPrefix(path, "/v1beta/") {
			continue
		}
		upstream := &mediaRig{}
		api := server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 1 << 20, Fetch: fetcher(true)})
		w := httptest.NewRecorder()
		api.Trusted().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		got := w.Body.String()
		if w.Code != http.StatusBadRequest || len(upstream.asked) > 0 ||
			!strings.Contains(got, "the file at 10.0.0.1 cannot be fetched") || strings.Contains(got, "token") {
			t.Errorf("%s: got %d: %s", path, w.Code, got)
		}
	}
}
