package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/simulator"
)

const (
	bundlePath = "resources/app/extensions/antigravity/dist/extension.js"
	serverPath = "resources/app/extensions/antigravity/bin/language_server_linux_x64"
)

// An install is a fake installation, with somebody who looks into it.
type install struct {
	t   *testing.T
	dir string
	now time.Time
	log bytes.Buffer
	*Installed
}

func newInstall(t *testing.T) *install {
	i := &install{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	i.Installed = NewInstalled(InstalledOptions{Dir: i.dir, Now: func() time.Time { return i.now }, Logger: slog.New(slog.NewTextHandler(&i.log, nil))})
	return i
}

func (i *install) write(name, content string) string {
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

// sparse makes a large file with a client at its end.
func (i *install) sparse(name string, size int64, letter string) {
	i.t.Helper()
	path := i.write(name, "")
	if err := os.Truncate(path, size); err != nil {
		i.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		i.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(fakeBundle(letter)); err != nil {
		i.t.Fatal(err)
	}
}

// finds checks that a client is found.
func (i *install) finds(id, letter string) Identity {
	i.t.Helper()
	who, err := i.find(i.t.Context(), id)
	if err != nil {
		i.t.Fatal(err)
	}
	if who.ID != fakeID(letter) || !who.Secret.Equal(fakeSecret(letter)) {
		i.t.Fatalf("found %v in %s, want %s", who.ID, who.File, letter)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", who, who, who)+i.log.String(), "SPX-") {
		i.t.Error("the secret was printed")
	}
	return who
}

// findsNone checks that none is found, and returns what is said about it.
func (i *install) findsNone(id string) (*perigee.Error, *NoClient) {
	i.t.Helper()
	who, err := i.find(i.t.Context(), id)
	e := wantClass(i.t, err, perigee.ClassInvalid)
	cause, ok := errors.AsType[*NoClient](err)
	if !ok || e.Next == "" {
		i.t.Fatalf("found %v, %v", who.ID, err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, cause)+i.log.String(), "SPX-") {
		i.t.Error("a secret was printed")
	}
	return e, cause
}

// TestInstalledLayouts finds a client wherever the IDE is on each platform, and in each part of it that a user may name.
func TestInstalledLayouts(t *testing.T) {
	for _, c := range []struct{ system, root, file string }{
		{"linux", ".local/share/Antigravity", "resources/app/out/main.js"},
		{"linux", "Antigravity", "resources/app/out/vs/code/electron-main/main.js"},
		{"linux", "Antigravity", bundlePath},
		{"linux", "Antigravity", serverPath},
		{"linux", "Antigravity", "resources/bin/language_server"},
		{"darwin", "Applications/Antigravity.app", "Contents/Resources/app/out/main.js"},
		{"darwin", "Applications/Antigravity IDE.app", "Contents/Resources/app/extensions/antigravity/bin/language_server_macos_arm"},
		{"darwin", "Applications/Antigravity.app", "Contents/Resources/bin/language_server"},
		{"windows", "AppData/Local/Programs/Antigravity", bundlePath},
		{"windows", "AppData/Local/Programs/Antigravity", "resources/app/extensions/antigravity/bin/language_server_windows_x64.exe"},
		{"windows", "AppData/Local/Programs/Antigravity", "resources/bin/language_server.exe"},
		{"", "Antigravity.app/Contents/Resources/app", "out/main.js"},
		{"", "Antigravity/resources", "app/extensions/antigravity/dist/extension.js"},
	} {
		home := t.TempDir()
		root := filepath.Join(home, c.root)
		want := writeFile(t, filepath.Join(root, c.file), fakeBundle("a"))
		env := map[string]string{"HOME": home, "USERPROFILE": home}
		if c.system != "" && !slices.Contains(usualRoots(c.system, func(name string) string { return env[name] }), root) {
			t.Errorf("%s: nobody looks in %s", c.system, root)
		}
		// Only this root, because the machine of who runs the test may have an IDE, too.
		env[InstalledVariable] = root
		who, err := NewInstalled(InstalledOptions{OS: c.system, Env: func(name string) string { return env[name] }}).find(t.Context(), "")
		if err != nil || who.ID != fakeID("a") || !who.Secret.Equal(fakeSecret("a")) || who.File != want {
			t.Errorf("%s %s: found %+v, %v", c.root, c.file, who, err)
		}
	}
}

func TestUsualRoots(t *testing.T) {
	env := map[string]string{"HOME": "/home/me", "LOCALAPPDATA": "/local", "ProgramFiles": "/programs"}
	for system, want := range map[string]string{
		"linux":   "/usr/share/antigravity /opt/antigravity /opt/Antigravity /home/me/Antigravity /home/me/.local/share/Antigravity",
		"darwin":  "/Applications/Antigravity.app /Applications/Antigravity IDE.app /home/me/Applications/Antigravity.app /home/me/Applications/Antigravity IDE.app",
		"windows": "/local/Programs/Antigravity /local/Programs/Antigravity IDE /programs/Antigravity /programs/Antigravity IDE",
	} {
		got := usualRoots(system, func(name string) string { return env[name] })
		if filepath.ToSlash(strings.Join(got, " ")) != want {
			t.Errorf("%s: %q", system, got)
		}
	}
	if got := usualRoots("windows", func(string) string { return "" }); got != nil {
		t.Errorf("without an environment: %q", got)
	}
}

func TestSeveralClientsAreNotGuessed(t *testing.T) {
	i := newInstall(t)
	i.write(bundlePath, fakeBundle("a"))
	i.write("resources/app/out/main.js", fakeBundle("b"))
	e, cause := i.findsNone("")
	if !slices.Equal(cause.Several, []string{fakeID("a"), fakeID("b")}) || !strings.Contains(e.Message, fakeID("a")+", "+fakeID("b")) || !strings.Contains(e.Next, "oauth.client_id") {
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
	i.write("resources/app/out/main.js", strings.Repeat(fakeBundle("a")+strings.Repeat(" ", 5000), 3))
	i.write(bundlePath, fakeBundle("a"))
	i.finds("", "a")
}

func TestTwoSecretsOfOneIDAreNotGuessed(t *testing.T) {
	i := newInstall(t)
	i.write("resources/app/out/main.js", fakeID("a")+" "+fakeSecret("a"))
	i.write(bundlePath, fakeID("a")+" "+fakeSecret("b"))
	for _, id := range []string{"", fakeID("a")} {
		if e, cause := i.findsNone(id); len(cause.Several) != 1 || !strings.Contains(e.Next, "oauth.client_secret") {
			t.Errorf("%v, %q", e, cause.Several)
		}
	}
}

func TestIDAndSecretInDifferentFilesAreNoPair(t *testing.T) {
	i := newInstall(t)
	i.write("resources/app/extensions/antigravity/dist/a.js", fakeID("a"))
	i.write("resources/app/extensions/antigravity/dist/b.js", fakeSecret("a"))
	_, cause := i.findsNone("")
	if want := "2 files read in " + i.dir; cause.Looked != want || cause.Several != nil {
		t.Errorf("it says %q, want %q", cause.Looked, want)
	}
}

func TestFilesThatAreNotTheIDEsAreNotRead(t *testing.T) {
	i := newInstall(t)
	for _, name := range []string{"main.js", "resources/app/out/other.js", "resources/app/extensions/other/dist/extension.js",
		"resources/app/extensions/antigravity/dist/deep/extension.js", "resources/app/extensions/antigravity/bin/fd"} {
		i.write(name, fakeBundle("a"))
	}
	if _, cause := i.findsNone(""); !strings.HasPrefix(cause.Looked, "0 files read in ") {
		t.Errorf("it says %q", cause.Looked)
	}
}

func TestProgramsAreReadOnlyForWhatBundlesLack(t *testing.T) {
	i := newInstall(t)
	i.write(bundlePath, fakeBundle("a"))
	i.write(serverPath, "text"+fakeID("b")+fakeSecret("b")+"text")
	i.finds("", "a") // with the program there would be two
	i.finds(fakeID("b"), "b")
}

func TestWithoutAnInstallation(t *testing.T) {
	i := newInstall(t)
	i.opts.Dir = filepath.Join(i.dir, "nowhere")
	if _, cause := i.findsNone(""); cause.Looked != "no installation in "+i.opts.Dir {
		t.Errorf("it says %q", cause.Looked)
	}
}

func TestLinksOutOfTheInstallationAreNotFollowed(t *testing.T) {
	i := newInstall(t)
	outside := writeFile(t, filepath.Join(t.TempDir(), "main.js"), fakeBundle("x"))
	inside := i.write("elsewhere.js", fakeBundle("a"))
	for name, target := range map[string]string{
		"resources/app/out/main.js":                      outside,
		"resources/app/extensions/antigravity":           filepath.Dir(outside),
		"resources/app/out/b/main.js":                    "nowhere",
		"resources/app/out/c/main.js":                    "../../../../elsewhere.js",
		"Contents/Resources/app/out":                     filepath.Dir(outside),
		"app/extensions/antigravity/dist/up.js":          "../../../../../" + filepath.Base(filepath.Dir(outside)) + "/main.js",
		"app/extensions/antigravity/bin/language_server": filepath.Dir(inside),
	} {
		path := filepath.Join(i.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Skip(err)
		}
	}
	i.finds("", "a")
	_, cause := i.findsNone(fakeID("x"))
	for _, name := range []string{"resources/app/out/main.js", "resources/app/out/b/main.js", "up.js", "language_server"} {
		if !strings.Contains(strings.Join(i.last.skipped, " "), name) {
			t.Errorf("%s is not named in %q", name, i.last.skipped)
		}
	}
	if !strings.Contains(cause.Looked, "not readable: ") || !strings.HasSuffix(cause.Looked, " more") {
		t.Errorf("it says %q", cause.Looked)
	}
}

func TestRootsThatAreOneAreReadOnce(t *testing.T) {
	i := newInstall(t)
	i.write(bundlePath, "nothing")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(i.dir, link); err != nil {
		t.Skip(err)
	}
	f := finding{left: maxRead}
	if err := f.read(t.Context(), []string{i.dir, link}, true, stages[0]); err != nil || f.files != 1 {
		t.Errorf("%d files were read, %v", f.files, err)
	}
}

func TestUnreadableFilesAreNamed(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("nothing is unreadable here")
	}
	i := newInstall(t)
	if err := os.Chmod(i.write("resources/app/out/main.js", fakeBundle("x")), 0); err != nil {
		t.Fatal(err)
	}
	_, cause := i.findsNone("")
	if !strings.Contains(cause.Looked, filepath.Join(i.dir, "resources/app/out/main.js")+" (permission denied)") {
		t.Errorf("it says %q", cause.Looked)
	}
	i.write(bundlePath, fakeBundle("a"))
	i.now = i.now.Add(lookAgain)
	i.finds("", "a")
}

func TestLargeProgramsTakeLittleMemory(t *testing.T) {
	i := newInstall(t)
	i.sparse(serverPath, 200<<20, "a")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i.finds("", "a")
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 4<<20 {
		t.Errorf("it took %d bytes", spent)
	}
}

func TestNoMoreIsReadThanASearchMayCost(t *testing.T) {
	i := newInstall(t)
	for _, letter := range []string{"a", "b", "c"} {
		i.sparse("resources/bin/language_server_"+letter, 250<<20, letter)
	}
	i.finds("", "a")
	for _, want := range []string{"language_server_b (only its first ", "language_server_c (400 MiB have been read already)"} {
		if !strings.Contains(i.last.String(), want) {
			t.Errorf("%q is not in %q", want, i.last.String())
		}
	}
}

// TestLookingIsLazyAndNotRepeated creates, changes and removes the IDE between asking.
func TestLookingIsLazyAndNotRepeated(t *testing.T) {
	i := newInstall(t)
	i.findsNone("")
	i.write(bundlePath, fakeBundle("a"))
	i.now = i.now.Add(lookAgain - time.Second)
	i.findsNone("")
	i.now = i.now.Add(time.Second)
	i.finds("", "a")
	if err := os.RemoveAll(i.dir); err != nil {
		t.Fatal(err)
	}
	i.now = i.now.Add(24 * time.Hour)
	i.finds("", "a")
	if n := strings.Count(i.log.String(), "that of the installed IDE"); n != 1 {
		t.Errorf("it was told %d times: %s", n, i.log.String())
	}
}

func TestSearchThatIsCanceled(t *testing.T) {
	i := newInstall(t)
	i.write(bundlePath, fakeBundle("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.find(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	i.finds("", "a") // at once: it was no failure

	i = newInstall(t)
	i.sparse(serverPath, 200<<20, "a")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	n, err := scan(ctx, readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }), true, nil)
	if !errors.Is(err, context.Canceled) || n > 1<<20 {
		t.Errorf("%d bytes were read, %v", n, err)
	}
	i.turn <- struct{}{} // somebody else is looking
	if _, err := i.find(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits got %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestManyLookAtOnce(t *testing.T) {
	i := newInstall(t)
	i.write(bundlePath, fakeBundle("a"))
	var looking sync.WaitGroup
	for range 8 {
		looking.Go(func() {
			if who, err := i.find(t.Context(), ""); err != nil || who.ID != fakeID("a") {
				t.Errorf("%v, %v", who.ID, err)
			}
		})
	}
	looking.Wait()
	if i.last.files != 1 {
		t.Errorf("%d files were read", i.last.files)
	}
}

// TestIdentity is what is configured and what is found, in every mixture.
func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		id, secret string
		installed  string // letters of clients in the IDE
		nowhere    bool   // nothing is looked for
		wantID     string // empty: an error
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
			i.write("resources/app/extensions/antigravity/dist/"+string(letter)+".js", fakeBundle(string(letter)))
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
		if c.id != "" && c.secret != "" && i.last.stage != 0 {
			t.Errorf("%s: it was looked for all the same", name)
		}
	}
}

// TestSignInWithTheClientOfTheIDE signs in, and then refreshes: tokens are good only with the client that they were given to.
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
	want := i.write(bundlePath, fakeBundle("a"))
	i.now = i.now.Add(lookAgain)
	l, b, done := r.start(LoginOptions{})
	if l.Identity.ID != fakeID("a") || l.Identity.File != want || !strings.Contains(l.URL, fakeID("a")) || strings.Contains(l.URL, "SPX-") {
		t.Errorf("%+v, %s", l.Identity, l.URL)
	}
	b.visit(b.consent(l.URL).String())
	got := <-done
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
	if !strings.Contains(i.log.String(), "no OAuth client is taken from an installed IDE") {
		t.Errorf("the log does not say so: %s", i.log.String())
	}
}
