package vault

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) {
	keyring.MockInit() // never the user's keyring
	goleak.VerifyTestMain(m)
}

func mustOpen(t testing.TB, opts Options) *Key {
	t.Helper()
	k, err := Open(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustSeal(t testing.TB, k *Key, plain string, owner ...string) string {
	t.Helper()
	sealed, err := k.Seal(perigee.NewSecret(plain), owner...)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func wantOpen(t testing.TB, k *Key, sealed, plain string, owner ...string) {
	t.Helper()
	if got, err := k.Open(sealed, owner...); err != nil || got.Reveal() != plain {
		t.Errorf("got %q, %v, want %q", got.Reveal(), err, plain)
	}
}

func wantError(t testing.TB, err error, class perigee.Class, words, next string) {
	t.Helper()
	e, ok := errors.AsType[*perigee.Error](err)
	if !ok || e.Class != class || !strings.Contains(e.Message, words) || !strings.Contains(e.Hint, next) {
		t.Errorf("got %v, want %s with %q and %q", err, class, words, next)
	}
}

func inFile(dir string) Options { return Options{Dir: dir, NoKeyring: true} }

// fakeRing is a keyring that can be told to misbehave.
type fakeRing struct {
	mu     sync.Mutex
	values map[string]string
	err    error
	hang   chan struct{} // nil means it answers
	gets   int
}

// Get hangs in bubbles only.
func (r *fakeRing) Get(account string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	if r.hang != nil {
		<-r.hang
	}
	if r.err != nil {
		return "", r.err
	}
	value, ok := r.values[account]
	if !ok {
		return "", keyring.ErrNotFound
	}
	return value, nil
}

func (r *fakeRing) Set(account, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.values == nil {
		r.values = map[string]string{}
	}
	r.values[account] = value
	return nil
}

func TestSealedIsOpenedForItsOwnerOnly(t *testing.T) {
	k := mustOpen(t, inFile(t.TempDir()))
	sealed := mustSeal(t, k, "token", "accounts", "antigravity", "ada@example.com")
	wantOpen(t, k, sealed, "token", "accounts", "antigravity", "ada@example.com")
	if mustSeal(t, k, "token", "accounts", "antigravity", "ada@example.com") == sealed {
		t.Error("sealing twice gives the same")
	}
	if strings.Contains(sealed, "token") || strings.Contains(sealed, base64.RawURLEncoding.EncodeToString([]byte("token"))) {
		t.Errorf("the secret can be read in %q", sealed)
	}
	for _, owner := range [][]string{
		nil, {"accounts", "antigravity"}, {"accounts", "antigravity", "bob@example.com"}, {"other", "antigravity", "ada@example.com"},
		{"accountsantigravity", "", "ada@example.com"}, {"accounts", "antigravity", "ada@example.com", ""}, {"accounts/antigravity/ada@example.com"},
	} {
		_, err := k.Open(sealed, owner...)
		wantError(t, err, perigee.ClassInternal, "was changed, or belongs to something else", "perigee login")
	}
}

func TestSealingProperty(t *testing.T) {
	k := mustOpen(t, inFile(t.TempDir()))
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.String().Draw(t, "plain")
		owner := rapid.SliceOf(rapid.String()).Draw(t, "owner")
		sealed, err := k.Seal(perigee.NewSecret(plain), owner...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Open(sealed, owner...); err != nil || got.Reveal() != plain {
			t.Fatalf("got %q, %v", got.Reveal(), err)
		}
		other := rapid.SliceOf(rapid.String()).Draw(t, "other")
		if got, err := k.Open(sealed, other...); err == nil && strings.Join(other, "\x00") != strings.Join(owner, "\x00") {
			t.Fatalf("opened for %q: %q", other, got.Reveal())
		}
	})
}

func TestWhatWasNotSealedIsNotOpened(t *testing.T) {
	k := mustOpen(t, inFile(t.TempDir()))
	sealed := mustSeal(t, k, "token", "a")
	broken := []byte(sealed)
	broken[len(broken)-3] ^= 1
	for _, text := range []string{"", "token", ":", "::", "v1:", "v1::", "v1:" + k.id + ":", "v1:" + k.id + ":AAAA", sealed[:len(sealed)-4], string(broken), "\x00\x00", sealed + "AAAA"} {
		_, err := k.Open(text, "a")
		wantError(t, err, perigee.ClassInternal, "was changed", "perigee login")
	}
	_, err := k.Open("v2"+strings.TrimPrefix(sealed, "v1"), "a")
	wantError(t, err, perigee.ClassUnavailable, "newer perigee", "perigee login")
}

func FuzzOpen(f *testing.F) {
	k := mustOpen(f, inFile(f.TempDir()))
	f.Add(mustSeal(f, k, "token", "a"))
	f.Add("v1:0123456789abcdef:AAAA")
	f.Fuzz(func(t *testing.T, sealed string) {
		if got, err := k.Open(sealed, "b"); err == nil {
			t.Errorf("%q was opened: %q", sealed, got.Reveal())
		}
	})
}

func TestKeyStaysInTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	first := mustOpen(t, inFile(dir))
	if first.place != placeFile {
		t.Errorf("it is in the %s", first.place)
	}
	sealed := mustSeal(t, first, "token", "a")
	path := filepath.Join(dir, fileName)
	wantMode := func(name string, want fs.FileMode) {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	wantMode(path, 0o600)
	wantMode(filepath.Join(dir, lockName), 0o600)
	wantMode(dir, 0o700)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, mustOpen(t, inFile(dir)), sealed, "token", "a")
	wantMode(path, 0o600)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 {
		t.Errorf("there are %q", names)
	}
}

func TestKeyStaysInTheKeyring(t *testing.T) {
	keyring.MockInit()
	t.Setenv(Variable, "")
	dir := t.TempDir()
	first := mustOpen(t, Options{Dir: dir, ring: systemRing{}})
	sealed := mustSeal(t, first, "token", "a")
	if first.place != placeKeyring {
		t.Errorf("it is in the %s", first.place)
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a key file, too: %v", err)
	}
	wantOpen(t, mustOpen(t, Options{Dir: dir, ring: systemRing{}}), sealed, "token", "a")
	wantOpen(t, mustOpen(t, Options{Dir: dir + "/../" + filepath.Base(dir), ring: systemRing{}}), sealed, "token", "a")
	_, err := mustOpen(t, Options{Dir: t.TempDir(), ring: systemRing{}}).Open(sealed, "a")
	wantError(t, err, perigee.ClassUnauthenticated, "the key that sealed a is gone", "sign in again with `perigee login`")
}

func TestEnvironmentTurnsTheKeyringOff(t *testing.T) {
	t.Setenv(Variable, "off")
	ring := &fakeRing{}
	if k := mustOpen(t, Options{Dir: t.TempDir(), ring: ring}); k.place != placeFile || ring.gets != 0 {
		t.Errorf("it is in the %s, and the keyring was asked %d times", k.place, ring.gets)
	}
}

func TestWithoutAKeyringThereIsAFile(t *testing.T) {
	keyring.MockInitWithError(errors.New("no secret service"))
	t.Cleanup(keyring.MockInit)
	dir := t.TempDir()
	var said strings.Builder
	first := mustOpen(t, Options{Dir: dir, ring: systemRing{}, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if first.place != placeFile {
		t.Errorf("it is in the %s", first.place)
	}
	if want := "error=\"no secret service\"\n"; !strings.HasSuffix(said.String(), want) || !strings.Contains(said.String(), "level=INFO msg=\"seal key kept in a file") {
		t.Errorf("it says %s", said.String())
	}
	sealed := mustSeal(t, first, "token", "a")
	keyring.MockInit() // now there is one, and the key stays where it is
	again := mustOpen(t, Options{Dir: dir, ring: systemRing{}})
	if again.place != placeFile {
		t.Errorf("it moved to the %s", again.place)
	}
	wantOpen(t, again, sealed, "token", "a")
}

func TestWithoutASessionBusNobodyIsAsked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the keyring is not on a bus here")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	if platformRing() != (systemRing{}) {
		t.Error("a bus that is named is not asked")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:")
	if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()))); err == nil {
		t.Skip("there is a session, which may have a bus")
	}
	if platformRing() != (noRing{}) {
		t.Error("a bus would be started")
	}
	t.Setenv(Variable, "")
	if k := mustOpen(t, Options{Dir: t.TempDir()}); k.place != placeFile {
		t.Errorf("the key is in the %s", k.place)
	}
}

// forgetful takes everything and keeps nothing.
type forgetful struct{}

func (forgetful) Get(string) (string, error) { return "", keyring.ErrNotFound }
func (forgetful) Set(string, string) error   { return nil }

func TestKeyringThatForgetsIsNone(t *testing.T) {
	if k := mustOpen(t, Options{Dir: t.TempDir(), ring: forgetful{}}); k.place != placeFile {
		t.Errorf("it is in the %s", k.place)
	}
}

func TestKeyringThatHangsIsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ring := &fakeRing{hang: make(chan struct{})}
		start := time.Now()
		if k := mustOpen(t, Options{Dir: dir, ring: ring}); k.place != placeFile {
			t.Errorf("it is in the %s", k.place)
		}
		if took := time.Since(start); took != ringTime {
			t.Errorf("it took %v", took)
		}
		close(ring.hang)
	})
}

// TestKeyringThatComesAndGoes is a laptop that is used at its desk and over the network.
func TestKeyringThatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ring := t.TempDir(), &fakeRing{}
		atDesk := mustSeal(t, mustOpen(t, Options{Dir: dir, ring: ring}), "one", "a")
		ring.err = errors.New("locked")
		remote := mustOpen(t, Options{Dir: dir, ring: ring})
		asked := ring.gets
		for range 20 {
			_, err := remote.Open(atDesk, "a")
			wantError(t, err, perigee.ClassUnauthenticated, "which does not answer", "unlock the keyring")
		}
		if ring.gets-asked != 1 {
			t.Errorf("the keyring was asked %d times in a row", ring.gets-asked)
		}
		overNet := mustSeal(t, remote, "two", "a")
		ring.err = nil
		<-time.After(askAgain)
		wantOpen(t, remote, atDesk, "one", "a")
		wantOpen(t, remote, overNet, "two", "a")
		back := mustOpen(t, Options{Dir: dir, ring: ring})
		wantOpen(t, back, atDesk, "one", "a")
		wantOpen(t, back, overNet, "two", "a")
	})
}

func TestLostKeyIsToldAndReplaced(t *testing.T) {
	for _, place := range []string{placeFile, placeKeyring} {
		t.Run(place, func(t *testing.T) {
			dir, ring := t.TempDir(), &fakeRing{}
			opts := Options{Dir: dir, ring: ring, NoKeyring: place == placeFile}
			sealed := mustSeal(t, mustOpen(t, opts), "token", "accounts", "antigravity", "ada@example.com")
			_ = os.Remove(filepath.Join(dir, fileName))
			clear(ring.values)
			k := mustOpen(t, opts)
			_, err := k.Open(sealed, "accounts", "antigravity", "ada@example.com")
			wantError(t, err, perigee.ClassUnauthenticated, "the key that sealed accounts/antigravity/ada@example.com is gone", "sign in again with `perigee login`")
			again := mustSeal(t, k, "new", "a")
			wantOpen(t, mustOpen(t, opts), again, "new", "a")
		})
	}
}

func TestDamagedKeyFileIsNotReplaced(t *testing.T) {
	good := fileWords + base64.StdEncoding.EncodeToString(make([]byte, keySize)) + "\n"
	for name, text := range map[string]string{"empty": "", "zeros": strings.Repeat("\x00", 64), "cut off": good[:40], "other": "hello\n", "short": fileWords + "AAAA\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), Options{Dir: dir, ring: &fakeRing{}})
			wantError(t, err, perigee.ClassInternal, path+" is damaged", "backup")
			if after, _ := os.ReadFile(path); string(after) != text {
				t.Error("it was changed")
			}
		})
	}
}

func TestManyStartsAgreeOnOneKey(t *testing.T) {
	for _, place := range []string{placeFile, placeKeyring} {
		t.Run(place, func(t *testing.T) {
			dir, ring := t.TempDir(), &fakeRing{}
			keys := make([]*Key, 16)
			var starting sync.WaitGroup
			for i := range keys {
				starting.Go(func() {
					var err error
					if keys[i], err = Open(t.Context(), Options{Dir: dir, NoKeyring: place == placeFile, ring: ring}); err != nil {
						t.Error(err)
					}
				})
			}
			await.Return(t, starting.Wait, "the starts")
			for _, k := range keys {
				if k == nil || k.id != keys[0].id || k.place != place {
					t.Fatal("they have different keys")
				}
			}
		})
	}
}

func TestKeyFileIsNeverReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), fileName)
	first, second := make([]byte, keySize), []byte(strings.Repeat("x", keySize))
	if err := writeKey(path, first); err != nil {
		t.Fatal(err)
	}
	if err := writeKey(path, second); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if got, err := readKey(path); err != nil || string(got) != string(first) {
		t.Errorf("got %x, %v", got, err)
	}
}

func TestOpenGivesUpOnALock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		lock, err := atomicfile.Lock(t.Context(), filepath.Join(dir, lockName), patience)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), inFile(dir))
		wantError(t, err, perigee.ClassUnavailable, "another perigee", "try again")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Open(ctx, inFile(dir)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		_ = lock.Close()
	})
	mustOpen(t, inFile(dir))
}

func TestUnwritableDirectorySaysSo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), inFile(filepath.Join(file, "data")))
	wantError(t, err, perigee.ClassUnavailable, "the key that seals sign-ins", "data_dir")
}

func BenchmarkOpen(b *testing.B) {
	k := mustOpen(b, inFile(b.TempDir()))
	sealed := mustSeal(b, k, strings.Repeat("t", 100), "accounts", "antigravity", "ada@example.com")
	for b.Loop() {
		if _, err := k.Open(sealed, "accounts", "antigravity", "ada@example.com"); err != nil {
			b.Fatal(err)
		}
	}
}

// Machines that share what is sealed are given the key.
func TestGivenKey(t *testing.T) {
	raw := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", keySize)))
	given := func(text string) (*Key, error) {
		return Open(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "not", "made"), Given: perigee.NewSecret(text)})
	}
	one, err := given(raw)
	if err != nil {
		t.Fatal(err)
	}
	other, err := given(fileWords + raw + "\n") // as a key file has it
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := one.Seal(perigee.NewSecret("token"), "accounts", "ada")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := other.Open(sealed, "accounts", "ada"); err != nil || plain.Reveal() != "token" || other.place != placeConfig {
		t.Errorf("got %q, %v, from %s", plain.Reveal(), err, other.place)
	}
	stranger, err := given(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", keySize))))
	if err != nil {
		t.Fatal(err)
	}
	_, err = stranger.Open(sealed, "accounts", "ada")
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnauthenticated || !strings.Contains(e.Hint, "store.seal_key") || strings.Contains(e.Hint, "perigee login") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"short", raw[:40], "not base64 at all, but as long as a key would be"} {
		_, err := given(bad)
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || strings.Contains(e.Error(), bad) || !strings.Contains(e.Hint, "openssl") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
