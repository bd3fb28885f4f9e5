package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
)

// elsewhere is a host that should get no request.
func elsewhere(t *testing.T) (address string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = w.Write([]byte(`{"access_token":"from-elsewhere","email":"ada@example.com"}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

// A sign-in server that sends us on gets neither a refresh token nor an access token carried there,
// and no account changes its state.
func TestSecretsAreNotCarriedAlongARedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			address, calls := elsewhere(t)
			server := httptest.NewServer(http.RedirectHandler(address+"/stolen", status))
			t.Cleanup(server.Close)
			client := NewClient(Options{TokenURL: server.URL, UserinfoURL: server.URL, ClientID: "id", ClientSecret: perigee.NewSecret("client-secret-of-the-test")})
			_, err := client.Refresh(t.Context(), perigee.NewSecret("fake-refresh-ada"))
			if err == nil || StateOf(err) != "" {
				t.Errorf("the refresh ended with %v", err)
			}
			_, err = client.Email(t.Context(), perigee.NewSecret("fake-access-ada"))
			if err == nil || StateOf(err) != "" {
				t.Errorf("asking whose it is ended with %v", err)
			}
			if n := calls.Load(); n != 0 {
				t.Errorf("the other host was called %d times", n)
			}
		})
	}
}

// Whatever a server says about how long a token is good, it is neither for ever nor not at all.
func TestLifetimesThatMakeNoSense(t *testing.T) {
	for said, want := range map[string]time.Duration{
		``: usualLifetime, `,"expires_in":null`: usualLifetime, `,"expires_in":0`: usualLifetime, `,"expires_in":-5`: usualLifetime,
		`,"expires_in":-1e300`: usualLifetime, `,"expires_in":1e300`: maxLifetime, `,"expires_in":9223372036854775808`: maxLifetime,
		`,"expires_in":"1800"`: 30 * time.Minute, `,"expires_in":1800.5`: 30*time.Minute + 500*time.Millisecond,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"access_token":"fake-access"` + said + `}`))
		}))
		grant, err := NewClient(Options{TokenURL: server.URL, ClientID: "id"}).Refresh(t.Context(), perigee.NewSecret("fake-refresh-ada"))
		server.Close()
		if err != nil || grant.Lifetime != want {
			t.Errorf("%q: got %v, %v, want %v", said, grant.Lifetime, err, want)
		}
	}
}

// Answers that are no answers say nothing about an account, and are not repeated.
func TestSenselessAnswersStopNobody(t *testing.T) {
	for _, answer := range []string{
		"", "null", "[]", `"text"`, "<html>sign in to the hotel with fake-refresh-ada</html>", `{"error":"invalid_grant"}`,
		`{"access_token":""}`, `{"access_token":7}`, `{"access_token":"fake-access`, strings.Repeat("[", 1<<16), strings.Repeat(" ", maxAnswer+1),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		_, err := NewClient(Options{TokenURL: server.URL, ClientID: "id"}).Refresh(t.Context(), perigee.NewSecret("fake-refresh-ada"))
		server.Close()
		e := wantClass(t, err, perigee.ClassUnavailable)
		if StateOf(err) != "" || strings.Contains(e.Error(), "fake-") || len(e.Error()) > 1000 {
			t.Errorf("%.40q: got %.200v", answer, err)
		}
	}
}

// An installation is searched and nothing besides, whatever it links to.
func TestInstalledLinksLeadNowhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	i := newInstall(t)
	outside := writeFile(t, filepath.Join(t.TempDir(), "outside.js"), fakeScript("a"))
	elsewhere := t.TempDir()
	writeFile(t, filepath.Join(elsewhere, "extensions/antigravity/dist/extension.js"), fakeScript("a"))
	dist := filepath.Join(i.dir, filepath.Dir(scriptPath))
	if err := errors.Join(os.MkdirAll(dist, 0o700), os.MkdirAll(filepath.Join(i.dir, "Contents/Resources"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		filepath.Join(dist, "file.js"):                 outside,
		filepath.Join(dist, "loop.js"):                 "loop.js",
		filepath.Join(dist, "up.js"):                   "../../../../../../../../../../.." + outside,
		filepath.Join(dist, "directory.js"):            filepath.Dir(outside),
		filepath.Join(dist, "endless.js"):              "/dev/zero",
		filepath.Join(dist, "terminal.js"):             "/dev/tty",
		filepath.Join(i.dir, "Contents/Resources/app"): elsewhere,
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	_, cause := i.findsNone("")
	if cause.Several != nil {
		t.Errorf("found %v", cause.Several)
	}
}
