package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// A browser stands for the user's browser: it goes to the provider over pipes, and back over TCP.
type browser struct {
	t        *testing.T
	provider http.RoundTripper
}

// consent opens the sign-in page and returns where it sends the browser.
func (b browser) consent(page string) *url.URL {
	b.t.Helper()
	client := &http.Client{Transport: b.provider, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(page)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		b.t.Fatalf("%s: %v", resp.Status, err)
	}
	return back
}

// visit opens an address on this machine.
func (b browser) visit(address string) (status int, text string) {
	b.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get(address)
	if err != nil {
		b.t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Error(err)
	}
	return resp.StatusCode, string(body)
}

type outcome struct {
	SignedIn
	err error
}

// start begins a sign-in and waits for it beside the test.
func (r *rig) start(opts LoginOptions) (*Login, browser, <-chan outcome) {
	r.t.Helper()
	if opts.Client == nil {
		opts.Client = r.client
	}
	l, err := StartLogin(r.t.Context(), opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(l.Close)
	done := make(chan outcome, 1)
	go func() {
		who, err := l.Wait(r.t.Context())
		done <- outcome{who, err}
	}()
	return l, browser{r.t, r.options.Transport}, done
}

func TestLoginByCallback(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{Email: "bob@example.com"})
	back := b.consent(l.URL)
	if !strings.HasPrefix(back.String(), l.RedirectURI+"?") {
		t.Errorf("the browser was sent to %s, not to %s", back, l.RedirectURI)
	}
	status, text := b.visit(back.String())
	if status != http.StatusOK || !strings.Contains(text, "Signed in") {
		t.Errorf("the browser got %d: %s", status, text)
	}
	got := await.Receive(t, done, "the end of the sign-in")
	if got.err != nil || got.Email != "bob@example.com" || !r.works(got.Grant.Access) || got.Grant.Lifetime != 3599*time.Second {
		t.Fatalf("got %+v", got)
	}
	if _, err := r.client.Refresh(t.Context(), got.Grant.Refresh); err != nil {
		t.Error(err)
	}
	wantFree(t, l)
}

// wantFree asks for the port that a sign-in had.
func wantFree(t *testing.T, l *Login) {
	t.Helper()
	l.Close()
	u, err := url.Parse(l.RedirectURI)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:"+u.Port())
	if err != nil {
		t.Fatalf("its port is still taken: %v", err)
	}
	_ = listener.Close()
}

func TestConsentPageIsAskedForEverything(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, _, _ := r.start(LoginOptions{})
	other, _, _ := r.start(LoginOptions{})
	u, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for name, want := range map[string]string{
		"response_type": "code", "access_type": "offline", "prompt": "consent", "client_id": "client", "redirect_uri": l.RedirectURI,
		"scope": strings.Join(scopes, " "), "code_challenge_method": "S256", "login_hint": "",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(query.Get("state")) < 20 || len(query.Get("code_challenge")) != 43 {
		t.Errorf("state %q, challenge %q", query.Get("state"), query.Get("code_challenge"))
	}
	if strings.Contains(other.URL, query.Get("state")) || strings.Contains(other.URL, query.Get("code_challenge")) || strings.Contains(l.URL, l.verifier) {
		t.Error("what should be secret and new is not")
	}
}

func TestLoginByPasting(t *testing.T) {
	tests := map[string]func(back *url.URL) string{
		"the address":               func(back *url.URL) string { return back.String() },
		"the address with spaces":   func(back *url.URL) string { return "  " + back.String() + "\n" },
		"the address broken in two": func(back *url.URL) string { s := back.String(); return s[:50] + "\n  " + s[50:] },
		"the address in quotes":     func(back *url.URL) string { return `"<` + back.String() + `>"` },
		"the query":                 func(back *url.URL) string { return back.RawQuery },
		"the code":                  func(back *url.URL) string { return back.Query().Get("code") },
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, simulator.Script{})
			l, b, done := r.start(LoginOptions{})
			if err := l.Paste(t.Context(), text(b.consent(l.URL))); err != nil {
				t.Fatal(err)
			}
			if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil || got.Email != "ada@example.com" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPastingTheWrongThingCanBePutRight(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{})
	other, _, _ := r.start(LoginOptions{})
	for text, class := range map[string]perigee.Class{
		"":                                       perigee.ClassInvalid,
		" \n":                                    perigee.ClassInvalid,
		"no":                                     perigee.ClassInvalid,
		"what is a code?":                        perigee.ClassInvalid,
		l.URL:                                    perigee.ClassInvalid,
		"http://localhost:51121/":                perigee.ClassInvalid,
		"http://localhost:51121/?code=%zz":       perigee.ClassInvalid,
		l.RedirectURI + "?code=x&state=guess":    perigee.ClassInvalid,
		b.consent(other.URL).String():            perigee.ClassInvalid,
		"sim-code-that-nobody-gave":              perigee.ClassUnauthenticated,
		b.consent(other.URL).Query().Get("code"): perigee.ClassIdentity, // given for another callback
	} {
		wantClass(t, l.Paste(t.Context(), text), class)
	}
	if err := l.Paste(t.Context(), b.consent(l.URL).String()); err != nil {
		t.Fatal(err)
	}
	if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil {
		t.Error(got.err)
	}
	wantClass(t, l.Paste(t.Context(), "a-code-that-is-late"), perigee.ClassUnavailable)
}

// TestCallbackThatIsNotOurs: a callback from a program that found the port.
func TestCallbackThatIsNotOurs(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{})
	base := strings.TrimSuffix(l.RedirectURI, callbackPath)
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/", 404}, {"/favicon.ico", 404}, {callbackPath, 400}, {callbackPath + "?code=stolen-code", 400}, {callbackPath + "?code=stolen-code&state=", 400},
		{callbackPath + "?error=access_denied&state=x", 400}, {callbackPath + "?state=" + l.state, 400},
	} {
		if status, text := b.visit(base + c.path); status != c.status {
			t.Errorf("%s: got %d: %s", c.path, status, text)
		}
	}
	if r.asked("/token") != 0 {
		t.Error("the provider was asked about it")
	}
	b.visit(b.consent(l.URL).String())
	if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil {
		t.Error(got.err)
	}
}

func TestDeclinedLogin(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{Email: "nobody@example.com"})
	status, text := b.visit(b.consent(l.URL).String())
	if status != http.StatusBadGateway || !strings.Contains(text, "access_denied") {
		t.Errorf("the browser got %d: %s", status, text)
	}
	wantClass(t, await.Receive(t, done, "the end of the sign-in").err, perigee.ClassForbidden)
	wantFree(t, l)
}

func TestPageEscapesItsTexts(t *testing.T) {
	text := page{`<b title="x">`, `"'><script>alert(1)</script>&`}.html()
	for _, want := range []string{"<h1>&lt;b title=&#34;x&#34;&gt;</h1>", "<title>perigee: &lt;b", "<p>&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;</p>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestPageSaysNothingThatWasPutIn(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{})
	_, text := b.visit(l.RedirectURI + "?state=" + l.state + "&error=" + url.QueryEscape("<script>alert(1)</script>"))
	if strings.Contains(text, "<script") || strings.Contains(text, "alert(1)") {
		t.Errorf("the browser got %s", text)
	}
	await.Receive(t, done, "the end of the sign-in")
}

func TestLoginTakesTheNextPort(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := taken.Addr().(*net.TCPAddr).Port
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{Port: port})
	if strings.Contains(l.RedirectURI, fmt.Sprint(":", port, "/")) {
		t.Fatalf("it says %s", l.RedirectURI)
	}
	b.visit(b.consent(l.URL).String()) // the provider compares the address with that of the consent
	if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil {
		t.Error(got.err)
	}
}

func TestLoginOnTheConfiguredPort(t *testing.T) {
	r := newRig(t, simulator.Script{})
	var got, want string
	for range 10 { // another process may take the port that was free
		free, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := free.Addr().(*net.TCPAddr).Port
		_ = free.Close()
		l, _, _ := r.start(LoginOptions{Port: port})
		if got, want = l.RedirectURI, fmt.Sprintf("http://localhost:%d/oauth-callback", port); got == want {
			return
		}
	}
	t.Errorf("got %s, want %s", got, want)
}

func TestLoginThatNobodyFinishes(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, _, done := r.start(LoginOptions{Timeout: time.Millisecond})
	if e := wantClass(t, await.Receive(t, done, "the end of the sign-in").err, perigee.ClassUnavailable); !strings.Contains(e.Hint, "paste") {
		t.Errorf("next is %q", e.Hint)
	}
	wantFree(t, l)

	ctx, cancel := context.WithCancel(t.Context())
	l, err := StartLogin(t.Context(), LoginOptions{Client: r.client})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantFree(t, l)

	l, err = StartLogin(t.Context(), LoginOptions{Client: r.client})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = l.Wait(t.Context())
	wantClass(t, err, perigee.ClassUnavailable)
}

func TestLoginWhenTheProviderIsInTrouble(t *testing.T) {
	for _, path := range []string{"/token", "/userinfo"} {
		r := newRig(t, simulator.Script{})
		l, b, done := r.start(LoginOptions{})
		r.fault(path, "unavailable_503", 0)
		status, text := b.visit(b.consent(l.URL).String())
		if status != http.StatusBadGateway || !strings.Contains(text, "Not signed in") {
			t.Errorf("%s: the browser got %d: %s", path, status, text)
		}
		wantClass(t, await.Receive(t, done, "the end of the sign-in").err, perigee.ClassUnavailable)
	}
}

func TestLoginWithoutARefreshToken(t *testing.T) {
	r := newRig(t, simulator.Script{})
	options := r.options
	options.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Request: req, Body: io.NopCloser(strings.NewReader(`{"access_token":"x","expires_in":3599}`))}, nil
	})
	l, _, _ := r.start(LoginOptions{Client: NewClient(options)})
	if e := wantClass(t, l.Paste(t.Context(), "some-code-or-other"), perigee.ClassUnauthenticated); !strings.Contains(e.Hint, "permissions") {
		t.Errorf("next is %q", e.Hint)
	}
}

func TestLoginThatCannotBegin(t *testing.T) {
	for _, options := range []Options{{}, {AuthURL: "https://accounts.example.com/auth"}, {AuthURL: "%", ClientID: "x"}} {
		_, err := StartLogin(t.Context(), LoginOptions{Client: NewClient(options)})
		wantClass(t, err, perigee.ClassInvalid)
	}
}

// TestManyCallbacksAtOnce is a browser that reloads.
func TestManyCallbacksAtOnce(t *testing.T) {
	r := newRig(t, simulator.Script{})
	l, b, done := r.start(LoginOptions{})
	back := b.consent(l.URL).String()
	var reloading sync.WaitGroup
	for range 5 {
		reloading.Go(func() {
			transport := &http.Transport{DisableKeepAlives: true}
			if resp, err := (&http.Client{Transport: transport}).Get(back); err == nil { // it may find the port closed
				_ = resp.Body.Close()
			}
		})
	}
	if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil {
		t.Error(got.err)
	}
	await.Return(t, reloading.Wait, "the browser")
	if r.asked("/token") != 1 {
		t.Errorf("the code was used %d times", r.asked("/token"))
	}
}

func FuzzParsePasted(f *testing.F) {
	f.Add("http://localhost:51121/oauth-callback?code=4%2F0Ab&state=x")
	f.Add("4/0AbCdEfGh")
	f.Add("error=access_denied")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parsePasted(text); err == nil && p.code.IsZero() == (p.denied == "") {
			t.Errorf("%q: neither or both: %+v", text, p)
		}
	})
}
