package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/lib/netguard"
	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("AUTHORITY_TEST_DIR"); dir != "" {
		os.Exit(openAsChild(dir))
	}
	goleak.VerifyTestMain(m)
}

func parse(t testing.TB, patterns ...string) netguard.HostList {
	t.Helper()
	hosts, err := netguard.ParseHosts(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func open(t testing.TB, dir string, now func() time.Time, patterns ...string) (a *Authority, made bool) {
	t.Helper()
	a, made, err := Open(dir, parse(t, patterns...), now)
	if err != nil {
		t.Fatal(err)
	}
	return a, made
}

// at returns a clock that a test sets.
func at(clock *time.Time) func() time.Time { return func() time.Time { return *clock } }

func TestOpenMakesAnAuthorityOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "ca")
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read without an authority: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("Read made the directory")
	}
	first, made := open(t, dir, nil, "api.example.org", "*.sandbox.example.net")
	if !made {
		t.Error("the first is not made")
	}
	again, made := open(t, dir, nil, "*.sandbox.example.net", "API.example.org")
	if made || again.Info().Fingerprint != first.Info().Fingerprint {
		t.Error("the same patterns in another order and case make a new authority")
	}
	info, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"*.sandbox.example.net", "api.example.org"}; !slices.Equal(info.Hosts, want) {
		t.Errorf("hosts %q", info.Hosts)
	}
	if info.Path != filepath.Join(dir, "ca.pem") || info.Fingerprint != first.Info().Fingerprint || len(info.Fingerprint) != 32*3-1 {
		t.Errorf("%+v", info)
	}
	if _, err := again.WriteBundle(); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if info, _ := file.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file.Name(), info.Mode())
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v", info.Mode())
	}
}

// Programs that get the paths in their environment have working directories of their own.
func TestPathsOfARelativeDirectoryAreAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	a, _ := open(t, filepath.Join("data", "ca"), nil, "api.example.org")
	bundle, err := a.WriteBundle()
	if err != nil {
		t.Fatal(err)
	}
	info, err := Read(filepath.Join("data", "ca"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{a.Info().Path, bundle, info.Path} {
		if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
			t.Errorf("path %q: %v; want an absolute path", path, err)
		}
	}
}

func TestOpenTakesPermissionsAway(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := t.TempDir()
	open(t, dir, nil, "example.org")
	for path, mode := range map[string]fs.FileMode{dir: 0o755, keyPath(dir): 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, made := open(t, dir, nil, "example.org"); made {
		t.Error("a mode makes a new authority")
	}
	for _, path := range []string{dir, keyPath(dir)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

func TestTheAuthorityIsLimited(t *testing.T) {
	now := time.Now()
	a, _ := open(t, t.TempDir(), at(&now), "*.example.org", "api.example.net")
	c := a.Info().Certificate
	key := c.PublicKey.(*ecdsa.PublicKey)
	if !c.IsCA || !c.MaxPathLenZero || key.Curve != elliptic.P256() || c.KeyUsage != x509.KeyUsageCertSign ||
		!slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("%+v", c)
	}
	if !c.PermittedDNSDomainsCritical || !slices.Equal(c.PermittedDNSDomains, []string{"api.example.net", "example.org"}) ||
		len(c.ExcludedIPRanges) != 2 || c.ExcludedIPRanges[0].String() != "0.0.0.0/0" || c.ExcludedIPRanges[1].String() != "::/0" {
		t.Errorf("constraints %v %v", c.PermittedDNSDomains, c.ExcludedIPRanges)
	}
	if d := c.NotAfter.Sub(now); d > lifetime || d < lifetime-time.Minute {
		t.Errorf("valid for %v", d)
	}
	if d := now.Sub(c.NotBefore); d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("reaches back %v", d)
	}
	if _, _, err := Open(t.TempDir(), netguard.HostList{}, nil); err == nil {
		t.Error("an authority for every host")
	}
}

func TestLeaf(t *testing.T) {
	a, _ := open(t, t.TempDir(), nil, "*.example.org", "localhost")
	one, err := a.Leaf("API.example.org.")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.Info().Certificate)
	if _, err := one.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "api.example.org"}); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(one.Leaf.AuthorityKeyId, a.Info().Certificate.SubjectKeyId) {
		t.Error("AKI differs from SKI")
	}
	if d := one.Leaf.NotAfter.Sub(one.Leaf.NotBefore); d > leafLifetime+backdate {
		t.Errorf("valid for %v", d)
	}
	if again, _ := a.Leaf("api.example.org"); again != one {
		t.Error("made twice")
	}
	other, err := a.Leaf("localhost")
	if err != nil {
		t.Fatal(err)
	}
	if other.Leaf.PublicKey.(*ecdsa.PublicKey).Equal(one.Leaf.PublicKey) {
		t.Error("two hosts share a key")
	}
	long := strings.Repeat("a", 60) + ".example.org"
	if c, err := a.Leaf(long); err != nil || c.Leaf.VerifyHostname(long) != nil {
		t.Errorf("a long name: %v", err)
	}
	for _, host := range []string{"", ".", "example.org", "a.b.example.org", "127.0.0.1", "::1", "a b.example.org", "*.example.org", "x.example.net",
		strings.Repeat("a", 64) + ".example.org", "a\x00.example.org", "api.example.org:443"} {
		if _, err := a.Leaf(host); err == nil {
			t.Errorf("a certificate for %q", host)
		}
	}
}

func TestLeafIsMadeOnceForAllThatWait(t *testing.T) {
	a, _ := open(t, t.TempDir(), nil, "*.example.org")
	var wg sync.WaitGroup
	got := make([]*tls.Certificate, 50)
	for i := range got {
		wg.Go(func() { got[i], _ = a.Leaf("x.example.org") })
	}
	await.Return(t, wg.Wait, "the leaves")
	for _, c := range got {
		if c == nil || c != got[0] {
			t.Fatal("made more than once")
		}
	}
}

func TestLeavesAreBounded(t *testing.T) {
	a, _ := open(t, t.TempDir(), nil, "*.example.org")
	a.leaves.MaxEntries = 2
	for _, name := range []string{"a", "b", "c"} {
		if _, err := a.Leaf(name + ".example.org"); err != nil {
			t.Fatal(err)
		}
	}
	if a.leaves.Len() != 2 {
		t.Errorf("%d leaves", a.leaves.Len())
	}
}

func TestLeavesFollowTheClock(t *testing.T) {
	begin := time.Now()
	now := begin
	a, _ := open(t, t.TempDir(), at(&now), "example.org")
	leafAt := func(after time.Duration) *tls.Certificate {
		t.Helper()
		now = begin.Add(after)
		c, err := a.Leaf("example.org")
		if err != nil {
			t.Fatal(err)
		}
		if now.Before(c.Leaf.NotBefore) || now.After(c.Leaf.NotAfter) {
			t.Errorf("after %v: valid from %v to %v", after, c.Leaf.NotBefore, c.Leaf.NotAfter)
		}
		return c
	}
	const day = 24 * time.Hour
	first := leafAt(0)
	if leafAt(4*day) != first {
		t.Error("renewed with 3 days left")
	}
	second := leafAt(5*day + time.Minute)
	if second == first {
		t.Error("not renewed with less than 2 days left")
	}
	if leafAt(0) == second {
		t.Error("a leaf of the future is kept after the clock was set back")
	}
	last := leafAt(lifetime - day)
	if !last.Leaf.NotAfter.Equal(a.Info().NotAfter) {
		t.Error("a leaf outlives its authority")
	}
	if leafAt(lifetime-time.Hour) != last {
		t.Error("the last leaf is made again and again")
	}
	for _, wrong := range []time.Duration{lifetime + time.Hour, -2 * time.Hour} {
		now = begin.Add(wrong)
		if _, err := a.Leaf("example.org"); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("%v away: %v", wrong, err)
		}
	}
}

// A new authority is one that clients do not trust, so it is made only where the old one is of no
// use.
func TestWhenOpenMakesANewAuthority(t *testing.T) {
	begin := time.Now()
	const day = 24 * time.Hour
	damage := func(path func(string) string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			data, err := os.ReadFile(path(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path(dir), change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(path func(string) string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(path(dir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func(data []byte) []byte { return data[:len(data)/2] }
	empty := func([]byte) []byte { return nil }
	tests := map[string]struct {
		change   func(t *testing.T, dir string)
		patterns []string
		after    time.Duration
		made     bool
	}{
		"nothing changed":          {},
		"another host":             {patterns: []string{"*.example.org", "example.net"}, made: true},
		"same tail, other pattern": {patterns: []string{"x.*.example.org"}, made: true},
		"350 days later":           {after: 350 * day},
		"6 days before the end":    {after: lifetime - 6*day, made: true},
		"expired":                  {after: lifetime + day, made: true},
		"the clock is at 1970":     {after: -time.Duration(time.Now().UnixNano())},
		"no key":                   {change: remove(keyPath), made: true},
		"no certificate":           {change: remove(certificatePath), made: true},
		"no list of hosts":         {change: remove(hostsPath)},
		"half a list of hosts":     {change: damage(hostsPath, half)},
		"half a key":               {change: damage(keyPath, half), made: true},
		"half a certificate":       {change: damage(certificatePath, half), made: true},
		"an empty key":             {change: damage(keyPath, empty), made: true},
		"the key of another one": {made: true, change: func(t *testing.T, dir string) {
			other, _ := open(t, t.TempDir(), nil, "*.example.org")
			damage(keyPath, func([]byte) []byte {
				data, err := os.ReadFile(keyPath(other.dir))
				if err != nil {
					t.Fatal(err)
				}
				return data
			})(t, dir)
		}},
		"a foreign pair without constraints": {made: true, change: writeForeignPair},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, _ := open(t, dir, at(&begin), "*.example.org")
			if test.change != nil {
				test.change(t, dir)
			}
			if test.patterns == nil {
				test.patterns = []string{"*.example.org"}
			}
			now := begin.Add(test.after)
			second, made := open(t, dir, at(&now), test.patterns...)
			if made != test.made || (first.Info().Fingerprint != second.Info().Fingerprint) != test.made {
				t.Errorf("made: %v", made)
			}
			if third, made := open(t, dir, at(&now), test.patterns...); made || third.Info().Fingerprint != second.Info().Fingerprint {
				t.Error("the next Open makes yet another one")
			}
		})
	}
}

func writeForeignPair(t *testing.T, dir string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(lifetime)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		keyPath(dir): {Type: "PRIVATE KEY", Bytes: pkcs8}, certificatePath(dir): {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A link leads to files that perigee did not make.
func TestOpenLeavesLinksAlone(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, keyPath(dir)); err != nil {
		t.Skip(err)
	}
	if _, _, err := Open(dir, parse(t, "example.org"), nil); err == nil {
		t.Error("no error")
	}
	if data, _ := os.ReadFile(target); string(data) != "precious" {
		t.Errorf("%q", data)
	}
}

// signByHand signs what Leaf would not: the limits must be in the certificate, not in the program.
func signByHand(t *testing.T, a *Authority, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Info().Certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestVerifiersHoldTheConstraints(t *testing.T) {
	a, _ := open(t, t.TempDir(), nil, "*.example.org", "localhost")
	roots := x509.NewCertPool()
	roots.AddCert(a.Info().Certificate)
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("openssl is not installed: Go's verifier only")
	}
	for name, valid := range map[string]bool{
		"api.example.org": true, "localhost": true,
		"example.net": false, "notexample.org": false, "oauth2.googleapis.com": false, "127.0.0.1": false, "10.1.2.3": false, "2001:db8::1": false,
	} {
		c := signByHand(t, a, name)
		if leaf, err := a.Leaf(name); err == nil {
			c = leaf.Leaf
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots}); (err == nil) != valid {
			t.Errorf("Go, %s: %v", name, err)
		}
		if openssl == "" {
			continue
		}
		file := filepath.Join(t.TempDir(), "leaf.pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", a.Info().Path, file).CombinedOutput()
		if (err == nil) != valid || !valid && !strings.Contains(string(out), "subtree violation") {
			t.Errorf("openssl, %s: %v\n%s", name, err, out)
		}
	}
}

func TestBundle(t *testing.T) {
	other, _ := open(t, t.TempDir(), nil, "example.net")
	third, _ := open(t, t.TempDir(), nil, "example.com")
	a, _ := open(t, t.TempDir(), nil, "example.org")
	certs := t.TempDir()
	junk := "junk\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	text, err := os.ReadFile(other.Info().Path)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(certs, "roots.pem")
	if err := os.WriteFile(file, append([]byte(junk), slices.Concat(text, text)...), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", file)
	t.Setenv("SSL_CERT_DIR", third.dir+string(filepath.ListSeparator)+filepath.Join(certs, "missing"))
	path, err := a.WriteBundle()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fingerprints(t, path), inOrder([]string{a.Info().Fingerprint, other.Info().Fingerprint, third.Info().Fingerprint}); !slices.Equal(got, want) {
		t.Errorf("%d certificates", len(got))
	}
	if data, _ := os.ReadFile(path); bytes.Contains(data, []byte("PRIVATE")) {
		t.Error("the bundle has a key")
	}
	// A process that was started with the bundle does not keep an earlier authority in it.
	b, _ := open(t, a.dir, nil, "example.info")
	t.Setenv("SSL_CERT_FILE", path)
	if _, err := b.WriteBundle(); err != nil {
		t.Fatal(err)
	}
	if got := fingerprints(t, path); slices.Contains(got, a.Info().Fingerprint) || !slices.Contains(got, b.Info().Fingerprint) {
		t.Errorf("%q", got)
	}
}

func inOrder(texts []string) []string {
	slices.Sort(texts)
	return texts
}

func fingerprints(t *testing.T, path string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Fingerprint(c))
	}
	slices.Sort(all)
	return all
}
