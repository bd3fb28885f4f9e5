package oauth

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

const scriptPath = "resources/app/extensions/antigravity/dist/extension.js"

// fakeID and fakeSecret have the form of an OAuth client's. They are put together here, so that
// nothing that looks like a credential is in the source.
func fakeID(letter string) string {
	return "123456" + "789012-" + strings.Repeat(letter, 32) + ".apps." + "googleusercontent.com"
}

func fakeSecret(letter string) string { return "GOC" + "SPX-" + strings.Repeat(letter, 28) }

func fakeScript(letter string) string {
	return `const a={clientId:"` + fakeID(letter) + `",clientSecret:"` + fakeSecret(letter) + `"};`
}

// An installRig is a fake installation with an Installed that searches it.
type installRig struct {
	t   *testing.T
	dir string
	log bytes.Buffer
	*Installed
}

func newInstall(t *testing.T) *installRig {
	i := &installRig{t: t, dir: t.TempDir()}
	i.Installed = NewInstalled(i.dir, slog.New(slog.NewTextHandler(&i.log, nil)))
	return i
}

func (i *installRig) write(name, content string) string {
	return writeFile(i.t, filepath.Join(i.dir, name), content)
}

func writeFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// finds checks that a client is found.
func (i *installRig) finds(id, letter string) Identity {
	i.t.Helper()
	client, err := i.find(i.t.Context(), id)
	if err != nil {
		i.t.Fatal(err)
	}
	if client.ID != fakeID(letter) || !client.Secret.Equal(fakeSecret(letter)) {
		i.t.Fatalf("found %v in %s, want %s", client.ID, client.File, letter)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", client, client, client)+i.log.String(), "SPX-") {
		i.t.Error("the secret was printed")
	}
	return client
}

// findsNone checks that no client is found, and returns the error and its cause.
func (i *installRig) findsNone(id string) (*perigee.Error, *NoClient) {
	i.t.Helper()
	client, err := i.find(i.t.Context(), id)
	e := wantClass(i.t, err, perigee.ClassInvalid)
	cause, ok := errors.AsType[*NoClient](err)
	if !ok || e.Hint == "" {
		i.t.Fatalf("found %v, %v", client.ID, err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, cause)+i.log.String(), "SPX-") {
		i.t.Error("a secret was printed")
	}
	return e, cause
}

// TestInstalledLayouts finds a client in the layout of each platform, and in each part of an
// installation that a user may name.
func TestInstalledLayouts(t *testing.T) {
	for _, c := range []struct{ system, root, file string }{
		{"linux", ".local/share/Antigravity", scriptPath},
		{"linux", "Antigravity", "resources/app/extensions/antigravity/dist/other.js"},
		{"darwin", "Applications/Antigravity IDE.app", "Contents/Resources/app/extensions/antigravity/dist/extension.js"},
		{"windows", "AppData/Local/Programs/Antigravity", scriptPath},
		{"", "Antigravity.app/Contents/Resources/app", "extensions/antigravity/dist/extension.js"},
		{"", "Antigravity/resources", "app/extensions/antigravity/dist/extension.js"},
	} {
		home := t.TempDir()
		root := filepath.Join(home, c.root)
		want := writeFile(t, filepath.Join(root, c.file), fakeScript("a"))
		env := map[string]string{"HOME": home, "LOCALAPPDATA": filepath.Join(home, "AppData", "Local")}
		if c.system != "" && !slices.Contains(usualDirs(c.system, func(name string) string { return env[name] }), root) {
			t.Errorf("%s: %s is not searched", c.system, root)
		}
		t.Setenv(InstalledVariable, root) // only this one, as there may be an IDE on the machine of the test
		client, err := NewInstalled("", slog.New(slog.DiscardHandler)).find(t.Context(), "")
		if err != nil || client.ID != fakeID("a") || !client.Secret.Equal(fakeSecret("a")) || client.File != want {
			t.Errorf("%s %s: found %+v, %v", c.root, c.file, client, err)
		}
	}
}

func TestUsualDirs(t *testing.T) {
	env := map[string]string{"HOME": "/home/me", "LOCALAPPDATA": "/local", "ProgramFiles": "/programs"}
	for system, want := range map[string]string{
		"linux":   "/usr/share/antigravity /opt/antigravity /opt/Antigravity /home/me/Antigravity /home/me/.local/share/Antigravity",
		"darwin":  "/Applications/Antigravity.app /Applications/Antigravity IDE.app /home/me/Applications/Antigravity.app /home/me/Applications/Antigravity IDE.app",
		"windows": "/local/Programs/Antigravity /local/Programs/Antigravity IDE /programs/Antigravity /programs/Antigravity IDE",
	} {
		got := usualDirs(system, func(name string) string { return env[name] })
		if filepath.ToSlash(strings.Join(got, " ")) != want {
			t.Errorf("%s: %q", system, got)
		}
	}
	if got := usualDirs("windows", func(string) string { return "" }); got != nil {
		t.Errorf("without an environment: %q", got)
	}
}

// TestClientsInAScript writes a script as letters for ids, their capitals for secrets, and a dot
// for what is between them.
func TestClientsInAScript(t *testing.T) {
	for _, c := range []struct {
		name, script string
		dot          int // bytes
		want         string
	}{
		{"one", "a.A", 10, "aA"},
		{"the secret first", "A.a", 10, "aA"},
		{"as far apart as may be", "a.A", maxDistance, "aA"},
		{"too far apart", "a.A", maxDistance + 1, ""},
		{"no secret", "a.b", 10, ""},
		{"no id", "A.B", 10, ""},
		{"a list", "a.A.b.B", 6, "aA bB"},
		{"a list with more between than inside", "a.A..b.B", 6, "aA bB"},
		{"a list with less between than inside", "a..A.b..B", 6, "aA bB"},
		{"a list with secrets first", "A.a.B.b.C.c", 6, "aA bB cC"},
		{"two ids for one secret are both returned", "a.b.A", 6, "aA bA"},
		{"between two ids", "a.A.b", 6, "aA bA"},
		{"first the ids and then the secrets", "a.b.A.B", 6, "aA aB bA bB"},
		{"the same id twice", "a.A.a", 6, "aA aA"},
		{"unrelated clients", "a.A" + strings.Repeat(".", 500) + "B.b", 10, "aA bB"},
	} {
		var script strings.Builder
		for _, r := range c.script {
			switch {
			case r == '.':
				script.WriteString(strings.Repeat(" ", c.dot))
			case r >= 'a':
				script.WriteString(fakeID(string(r)))
			default:
				script.WriteString(fakeSecret(string(r)))
			}
		}
		var got []string
		for _, client := range clientsIn([]byte(script.String())) {
			got = append(got, client.ID[13:14]+client.Secret.Reveal()[7:8])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFormOfClients puts what is almost an id or a secret beside a whole one of the other kind.
func TestFormOfClients(t *testing.T) {
	id, secret := fakeID("a"), fakeSecret("b")
	end := id[strings.Index(id, "."):]
	for name, c := range map[string]struct {
		script string
		want   int
	}{
		"a client":                  {`"` + id + `","` + secret + `"`, 1},
		"at the beginning and end":  {secret + "," + id, 1},
		"an id in a URL":            {secret + " https://" + id + "/", 1},
		"a short secret":            {id + ` "` + secret[:len(secret)-1] + `"`, 0},
		"a long secret":             {id + ` "` + secret + `x"`, 0},
		"a secret with a blank":     {id + " " + secret[:20] + " " + secret[20:], 0},
		"an end without an id":      {secret + " " + end, 0},
		"an id without a number":    {secret + " -abc" + end, 0},
		"an id without a dash":      {secret + " 123456789012" + end, 0},
		"an id without a name":      {secret + " 123456789012-" + end, 0},
		"an id in capitals":         {secret + " 123456789012-ABC" + end, 0},
		"an id with a short number": {secret + " 12345-abc" + end, 0},
		"an id with a long number":  {secret + " " + strings.Repeat("1", 21) + "-abc" + end, 0},
		"an id with a long name":    {secret + " 123456789012-" + strings.Repeat("a", 65) + end, 0},
	} {
		if got := clientsIn([]byte(c.script)); len(got) != c.want {
			t.Errorf("%s: got %d clients", name, len(got))
		}
	}
}

func TestSeveralClientsAreNotGuessed(t *testing.T) {
	i := newInstall(t)
	i.write(scriptPath, fakeScript("a"))
	i.write("resources/app/extensions/antigravity/dist/main.js", fakeScript("b"))
	e, cause := i.findsNone("")
	if !slices.Equal(cause.Several, []string{fakeID("a"), fakeID("b")}) || !strings.Contains(e.Message, fakeID("a")+", "+fakeID("b")) || !strings.Contains(e.Hint, "oauth.client_id") {
		t.Errorf("%v, %q", e, cause.Several)
	}
	i.finds(fakeID("b"), "b")
	i.finds(fakeID("a"), "a")
	if e, cause := i.findsNone(fakeID("c")); cause.Several != nil || !strings.Contains(e.Message, "no OAuth client") {
		t.Errorf("%v, %q", e, cause.Several)
	}
}

func TestOneClientInSeveralFilesIsOne(t *testing.T) {
	i := newInstall(t)
	i.write("resources/app/extensions/antigravity/dist/main.js", strings.Repeat(fakeScript("a")+strings.Repeat(" ", 5000), 3))
	i.write(scriptPath, fakeScript("a"))
	i.finds("", "a")
}

func TestTwoSecretsOfOneIDAreNotGuessed(t *testing.T) {
	i := newInstall(t)
	i.write("resources/app/extensions/antigravity/dist/main.js", fakeID("a")+" "+fakeSecret("a"))
	i.write(scriptPath, fakeID("a")+" "+fakeSecret("b"))
	for _, id := range []string{"", fakeID("a")} {
		if e, cause := i.findsNone(id); len(cause.Several) != 1 || !strings.Contains(e.Hint, "oauth.client_secret") {
			t.Errorf("%v, %q", e, cause.Several)
		}
	}
}

func TestIDAndSecretInDifferentFilesAreNoPair(t *testing.T) {
	i := newInstall(t)
	i.write("resources/app/extensions/antigravity/dist/a.js", fakeID("a"))
	i.write("resources/app/extensions/antigravity/dist/b.js", fakeSecret("a"))
	if _, cause := i.findsNone(""); cause.Searched != "scripts read in "+i.dir || cause.Several != nil {
		t.Errorf("looked: %q", cause.Searched)
	}
}

func TestWithoutAnInstallation(t *testing.T) {
	i := newInstall(t)
	i.Installed.dir = filepath.Join(i.dir, "nowhere")
	if _, cause := i.findsNone(""); cause.Searched != "no installation in "+i.Installed.dir {
		t.Errorf("looked: %q", cause.Searched)
	}
}

// TestSearchIsLazyAndNotRepeated creates, changes and removes the IDE between searches.
func TestSearchIsLazyAndNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstall(t)
		i.findsNone("")
		i.write(scriptPath, fakeScript("a"))
		time.Sleep(searchInterval - time.Second)
		i.findsNone("")
		time.Sleep(time.Second)
		i.finds("", "a")
		if err := os.RemoveAll(i.dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		i.finds("", "a")
		if n := strings.Count(i.log.String(), "client of the installed IDE"); n != 1 {
			t.Errorf("%d log lines: %s", n, i.log.String())
		}
	})
}

func TestConcurrentSearchesAreOne(t *testing.T) {
	i := newInstall(t)
	i.write(scriptPath, fakeScript("a"))
	var searches sync.WaitGroup
	for range 8 {
		searches.Go(func() {
			if client, err := i.find(t.Context(), ""); err != nil || client.ID != fakeID("a") {
				t.Errorf("%v, %v", client.ID, err)
			}
		})
	}
	await.Return(t, searches.Wait, "the searches")
	if n := strings.Count(i.log.String(), "client of the installed IDE"); n != 1 {
		t.Errorf("%d searches: %s", n, i.log.String())
	}
}

// TestIdentity is what is configured and what is found, in every mixture.
func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		id, secret string
		installed  string // letters of clients in the IDE
		nowhere    bool   // nothing is looked for
		wantID     string // empty means an error
		wantSecret string
	}{
		"configured":                         {id: "id", secret: "s", installed: "a", wantID: "id", wantSecret: "s"},
		"found":                              {installed: "a", wantID: fakeID("a"), wantSecret: fakeSecret("a")},
		"chosen":                             {id: fakeID("b"), installed: "ab", wantID: fakeID("b"), wantSecret: fakeSecret("b")},
		"not chosen":                         {installed: "ab"},
		"the one that is not there":          {id: "id", installed: "a"},
		"none":                               {},
		"secret without id":                  {secret: fakeSecret("a"), installed: "a", wantID: fakeID("a"), wantSecret: fakeSecret("a")},
		"secret without id, and of another":  {secret: "s", installed: "a"},
		"looked for nowhere":                 {nowhere: true, installed: "a"},
		"id alone, and looked for nowhere":   {id: "id", nowhere: true, wantID: "id"},
		"secret alone, looked for nowhere":   {secret: "s", nowhere: true},
		"everything, and looked for nowhere": {id: "id", secret: "s", nowhere: true, wantID: "id", wantSecret: "s"},
	} {
		i := newInstall(t)
		for _, letter := range c.installed {
			i.write("resources/app/extensions/antigravity/dist/"+string(letter)+".js", fakeScript(string(letter)))
		}
		options := Options{ClientID: c.id, ClientSecret: perigee.NewSecret(c.secret), Installed: i.Installed}
		if c.nowhere {
			options.Installed = nil
		}
		who, err := NewClient(options).Identity(t.Context())
		if (err != nil) != (c.wantID == "") || who.ID != c.wantID || who.Secret.Reveal() != c.wantSecret {
			t.Errorf("%s: got %q, %v", name, who.ID, err)
		}
		if err != nil {
			wantClass(t, err, perigee.ClassInvalid)
		}
		if c.id != "" && c.secret != "" && !i.at.IsZero() {
			t.Errorf("%s: there was a search all the same", name)
		}
	}
}

// TestSignInWithTheClientOfTheIDE signs in, and then refreshes: tokens are good only with the
// client that they were given to.
func TestSignInWithTheClientOfTheIDE(t *testing.T) {
	r := newRig(t, simulator.Script{})
	i := newInstall(t)
	r.options.ClientID, r.options.ClientSecret, r.options.Installed = "", perigee.Secret{}, i.Installed
	r.client = NewClient(r.options)
	_, err := StartLogin(t.Context(), LoginOptions{Client: r.client})
	wantClass(t, err, perigee.ClassInvalid)
	_, err = r.client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-ada"))
	if e := wantClass(t, err, perigee.ClassInvalid); strings.Contains(e.Error(), i.dir) {
		t.Errorf("clients of the gateway get to know a directory: %v", e)
	}
	want := i.write(scriptPath, fakeScript("a"))
	i.at = time.Time{}
	l, b, done := r.start(LoginOptions{})
	if l.Identity.ID != fakeID("a") || l.Identity.File != want || !strings.Contains(l.URL, fakeID("a")) || strings.Contains(l.URL, "SPX-") {
		t.Errorf("%+v, %s", l.Identity, l.URL)
	}
	b.visit(b.consent(l.URL).String())
	got := await.Receive(t, done, "the end of the sign-in")
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, err := r.client.Refresh(t.Context(), got.Grant.Refresh); err != nil {
		t.Error(err)
	}
}

// TestIDWithoutASecretAnywhere leaves it to the server, as there are clients without a secret.
func TestIDWithoutASecretAnywhere(t *testing.T) {
	r := newRig(t, simulator.Script{})
	i := newInstall(t)
	r.options.ClientSecret, r.options.Installed = perigee.Secret{}, i.Installed
	_, err := NewClient(r.options).Refresh(t.Context(), perigee.NewSecret("sim-refresh-ada"))
	wantClass(t, err, perigee.ClassIdentity)
	if !strings.Contains(i.log.String(), "no OAuth client found in an installed IDE") {
		t.Errorf("the log does not say so: %s", i.log.String())
	}
}
