package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"perigee"
)

// allPages are the pages, with one that there is not.
var allPages = []string{"/", "/dashboard/calls", "/dashboard/calls/last", "/dashboard/calls/last/files/meta.json", "/dashboard/accounts",
	"/dashboard/usage", "/dashboard/models", "/dashboard/setup", "/dashboard/config", "/dashboard/config?all=1", "/dashboard/system",
	"/dashboard/nothing"}

func TestPagesNeedASession(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) { r.files["meta.json"] = "{}" })
	stranger := &browser{t: t, rig: rig}
	forged := &browser{t: t, rig: rig, cookie: &http.Cookie{Name: CookieName, Value: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	owner := rig.signIn(t)
	for _, path := range append(allPages, "/dashboard/events") {
		for _, b := range []*browser{stranger, forged} {
			answer := b.do("GET", path, nil)
			if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(answer.text, "perigee dashboard") ||
				strings.Contains(answer.text, "gemini") || strings.Contains(answer.text, "example.com") {
				t.Errorf("%s: %s\n%s", path, answer.Status, answer.text)
			}
			if class := answer.Header.Get("X-Perigee-Class"); class != "unauthenticated" {
				t.Errorf("%s: class %q", path, class)
			}
			checkHeaders(t, path, answer.Header)
		}
		if path == "/dashboard/events" {
			continue
		}
		want := http.StatusOK
		if path == "/dashboard/nothing" {
			want = http.StatusNotFound
		}
		answer := owner.do("GET", path, nil)
		if answer.StatusCode != want {
			t.Errorf("%s: %s\n%s", path, answer.Status, answer.text)
		}
		checkHeaders(t, path, answer.Header)
		if head := owner.do("HEAD", path, nil); head.StatusCode != want || head.text != "" {
			t.Errorf("HEAD %s: %s", path, head.Status)
		}
	}
	rig.pass(12 * time.Hour)
	if answer := owner.do("GET", "/", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("after 12 hours: %s", answer.Status)
	}
}

func checkHeaders(t *testing.T, path string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s: %q", path, name, got)
		}
	}
	if h.Get("X-Perigee-Call") == "" {
		t.Errorf("%s: no id of the call", path)
	}
}

func TestATicketSignsInOnce(t *testing.T) {
	rig := newRig(t)
	b := &browser{t: t, rig: rig, header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}}
	path := "/?ticket=" + rig.store.NewTicket().Reveal()
	for range 2 {
		if answer := b.do("HEAD", path, nil); answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 0 {
			t.Errorf("HEAD: %s", answer.Status)
		}
	}
	answer := b.do("GET", path, nil)
	if answer.StatusCode != http.StatusOK || !strings.Contains(answer.text, `<meta http-equiv="refresh" content="0; url=/">`) || len(answer.Cookies()) != 1 {
		t.Fatalf("%s\n%s", answer.Status, answer.text)
	}
	checkHeaders(t, path, answer.Header)
	cookie := answer.Cookies()[0]
	if cookie.Name != "perigee_session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure ||
		cookie.MaxAge != 12*60*60 || strings.Contains(answer.text, cookie.Value) {
		t.Errorf("got %+v", cookie)
	}
	for _, method := range []string{"GET", "HEAD"} {
		if answer := b.do(method, path, nil); answer.StatusCode != http.StatusUnauthorized || len(answer.Cookies()) != 0 {
			t.Errorf("%s again: %s", method, answer.Status)
		}
	}
	old := "/?ticket=" + rig.store.NewTicket().Reveal()
	rig.pass(time.Minute)
	if answer := b.do("GET", old, nil); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(answer.text, "perigee dashboard") {
		t.Errorf("old: %s", answer.Status)
	}
	var results []string
	for _, e := range rig.audited {
		if e.Action != perigee.AuditDashboardSignIn || e.Actor != perigee.ActorCookie || e.From != "127.0.0.1" {
			t.Errorf("audited %+v", e)
		}
		results = append(results, e.Result)
	}
	if got := strings.Join(results, " "); got != "ok unauthenticated unauthenticated" {
		t.Errorf("audited %s", got)
	}
}

func TestTicketsAreForTheOwner(t *testing.T) {
	rig := newRig(t)
	b := &browser{t: t, rig: rig}
	if answer := b.do("POST", TicketPath, nil); answer.StatusCode != http.StatusUnauthorized || strings.Contains(answer.text, "ticket=") {
		t.Errorf("without the admin token: %s %s", answer.Status, answer.text)
	}
	if answer := rig.signIn(t).do("POST", TicketPath, nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a session: %s", answer.Status)
	}
	b.header = http.Header{"Authorization": {"Bearer admin-token"}}
	answer := b.do("POST", TicketPath, nil)
	prefix := `{"url":"` + rig.server.URL + `/?ticket=`
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.text, prefix) || !strings.HasSuffix(answer.text, `"expires_at":"2026-11-16T14:21:04Z"}`) {
		t.Errorf("%s %s", answer.Status, answer.text)
	}
}

func TestAddressesForBrowsers(t *testing.T) {
	for listen, want := range map[string]string{
		"http://127.0.0.1:8741": "http://127.0.0.1:8741", "https://192.168.1.7:443": "https://192.168.1.7:443",
		"http://0.0.0.0:8741": "http://127.0.0.1:8741", "http://[::]:8741": "http://[::1]:8741", "http://[::1]:8741": "http://[::1]:8741",
		"unix:/run/perigee.sock": "",
	} {
		if got, err := browserURL(listen); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
}

// Changing something needs the cookie, the token of the session's forms, and a page of this origin.
func TestFormsOfOtherPagesAreRefused(t *testing.T) {
	rig := newRig(t, func(r *rig, _ *Options) { r.files["meta.json"] = "{}" })
	owner, other := rig.signIn(t), rig.signIn(t)
	good := url.Values{"token": {owner.token()}, "upstream": {"antigravity"}}
	const disable = "/dashboard/accounts/ada@example.com/disable"
	replay := "/dashboard/calls/" + rig.calls[0].ID + "/replay"
	for name, test := range map[string]struct {
		header http.Header
		form   url.Values
		cookie *http.Cookie
		status int
	}{
		"no token":                    {nil, url.Values{"upstream": {"antigravity"}}, owner.cookie, 403},
		"token of another session":    {nil, url.Values{"token": {other.token()}}, owner.cookie, 403},
		"no cookie":                   {nil, good, nil, 401},
		"another site":                {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}, good, owner.cookie, 403},
		"another port":                {http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://127.0.0.1:1"}}, good, owner.cookie, 403},
		"another origin, old browser": {http.Header{"Sec-Fetch-Site": nil, "Origin": {"http://127.0.0.1:1"}}, good, owner.cookie, 403},
		"a page without an origin":    {http.Header{"Sec-Fetch-Site": nil, "Origin": {"null"}}, good, owner.cookie, 403},
		"a sandboxed page":            {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"null"}}, good, owner.cookie, 403},
		"same site, no origin":        {http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": nil}, good, owner.cookie, 403},
		"a form that is too large":    {nil, url.Values{"x": {strings.Repeat("x", maxForm)}, "token": good["token"]}, owner.cookie, 403},
	} {
		for _, path := range []string{disable, replay, "/dashboard/signout"} {
			b := &browser{t: t, rig: rig, cookie: test.cookie, header: test.header}
			if answer := b.do("POST", path, test.form); answer.StatusCode != test.status {
				t.Errorf("%s, %s: %s\n%s", name, path, answer.Status, answer.text)
			} else if class := answer.Header.Get("X-Perigee-Class"); class != map[int]string{401: "unauthenticated", 403: "forbidden"}[test.status] {
				t.Errorf("%s, %s: class %q", name, path, class)
			}
		}
	}
	if !rig.accounts[0].Enabled || len(rig.replayed) != 0 {
		t.Error("something was changed")
	}
	if answer := owner.do("GET", disable, nil); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", answer.Status)
	}
	if answer := owner.do("POST", disable+"?token="+good.Get("token"), url.Values{}); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a token in the URL: %s", answer.Status)
	}
	answer := owner.do("POST", disable, good)
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/dashboard/accounts" || rig.accounts[0].Enabled {
		t.Errorf("the owner: %s %s", answer.Status, answer.text)
	}
	checkHeaders(t, disable, answer.Header)
}

func TestSigningOut(t *testing.T) {
	rig := newRig(t)
	b := rig.signIn(t)
	answer := b.do("POST", "/dashboard/signout", url.Values{"token": {b.token()}})
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
		t.Errorf("%s %v", answer.Status, answer.Cookies())
	}
	if answer := b.do("GET", "/", nil); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("afterwards: %s", answer.Status)
	}
}
