package daemon_test

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// A forwardProxy sends every request to one server, whatever host it is for, and remembers them.
type forwardProxy struct {
	address string
	mu      sync.Mutex
	heard   []string // host and last step of the path
}

func newForwardProxy(t *testing.T, to string) *forwardProxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &forwardProxy{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", target.Host }}
	p.address = daemontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		step := r.URL.Path[strings.LastIndexAny(r.URL.Path, "/:")+1:]
		p.heard = append(p.heard, r.Header.Get("Proxy-Authorization")+" "+r.URL.Host+" "+step)
		p.mu.Unlock()
		r.Header.Del("Proxy-Authorization")
		forward.ServeHTTP(w, r)
	}))
	return p
}

// has reports whether a request for a host came through.
func (p *forwardProxy) has(host, step string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.heard, "Basic YWRhOmh1bnRlcjIy "+host+" "+step)
}

func (p *forwardProxy) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

func (p *forwardProxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = nil
}

// Everything that an upstream needs goes through its proxy: hosts of the test exist nowhere else.
func TestEverythingGoesThroughTheProxy(t *testing.T) {
	t.Parallel()
	_, provider := daemontest.StartSimulator(t, simulator.Options{})
	proxy := newForwardProxy(t, provider)
	address := perigee.NewSecret(strings.Replace(proxy.address, "http://", "http://ada:hunter22@", 1))
	src := daemontest.Sources(daemontest.AntigravityConfig(provider, "")+daemontest.OneUpstream(provider)[len("upstreams:\n"):]+"models: {routes: [{match: gemini-2.5-flash, to: [studio]}, {match: '*', to: [gravity]}]}\n", daemontest.DataDir(t))
	// No configuration may have unencrypted hosts elsewhere, but nothing else could be looked into
	// here.
	through := func(loaded *config.Loaded) {
		for i := range loaded.Config.Upstreams {
			u := &loaded.Config.Upstreams[i]
			u.Proxy, u.OAuth.RedirectPort = address, 0
			u.URL = strings.Replace(u.URL, "127.0.0.1", "studio.test", 1)
			u.Endpoints = []string{strings.Replace(provider, "127.0.0.1", "gateway.test", 1)}
			for _, setting := range []*string{&u.OAuth.TokenURL, &u.OAuth.UserinfoURL} {
				*setting = strings.Replace(*setting, "127.0.0.1", "sign-in.test", 1)
			}
		}
	}
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	through(loaded)
	port := provider[strings.LastIndexByte(provider, ':'):]

	login, err := daemon.StartLogin(t.Context(), daemon.Options{Loaded: loaded, Version: "test"}, loaded.Config.Upstreams[0], "")
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	page := make(chan error, 1)
	go func() { // the browser, whose page leads to the callback
		resp, err := daemontest.Client.Get(login.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		page <- err
	}()
	if _, err := login.Wait(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, page, "the browser"); err != nil {
		t.Error(err)
	}
	if !proxy.has("sign-in.test"+port, "token") || !proxy.has("sign-in.test"+port, "userinfo") || !proxy.has("gateway.test"+port, "loadCodeAssist") {
		t.Errorf("signing in asked %q", proxy.all())
	}
	proxy.forget()

	g := daemontest.StartIn(t, src, func(o *daemon.Options) { through(o.Loaded) })
	handle, err := daemon.Connect(t.Context(), daemon.Options{Loaded: loaded, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if _, err := handle.ImportAccounts(t.Context(), perigee.AccountImport{Document: []byte(`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`)}); err != nil {
		t.Fatal(err)
	}
	if resp := daemontest.Ask(t, g, "generateContent", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("studio: %d %s", resp.StatusCode, daemontest.Rest(t, resp))
	}
	if resp := askModel(t, g, "gemini-3-flash"); resp.StatusCode != http.StatusOK {
		t.Errorf("gravity: %d %s", resp.StatusCode, daemontest.Rest(t, resp))
	}
	if _, err := handle.Quota(t.Context(), true); err != nil {
		t.Error(err)
	}
	for _, want := range [][2]string{{"studio.test", "generateContent"}, {"gateway.test", "streamGenerateContent"}, {"gateway.test", "fetchAvailableModels"}, {"sign-in.test", "token"}} {
		if !proxy.has(want[0]+port, want[1]) {
			t.Errorf("%s of %s did not go through the proxy, which was asked %q", want[1], want[0], proxy.all())
		}
	}
}

func askModel(t *testing.T, g *daemontest.Gateway, model string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1beta/models/"+model+":generateContent", strings.NewReader(daemontest.Question))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := daemontest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}
