package truststore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newCA makes a certificate of perigee, or of another organization.
func newCA(t *testing.T, organization, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{Organization: []string{organization}, CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{"example.org"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A rig is a root directory with a store of one kind that already trusts another CA, and tools for
// it.
type rig struct {
	t       *testing.T
	machine Machine
	bin     string // first in PATH
	file    string // of ca, in PEM
	ca      *x509.Certificate
	other   *x509.Certificate
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	r := &rig{t: t, machine: Machine{OS: "linux", Root: filepath.Join(dir, "root"), Home: filepath.Join(dir, "home")},
		bin: filepath.Join(dir, "bin"), file: filepath.Join(dir, "ca.pem"),
		ca: newCA(t, "perigee", "perigee interception 01234567"), other: newCA(t, "Company", "Company CA")}
	r.write(r.file, string(encode(r.ca)))
	for _, dir := range []string{r.machine.Root, r.machine.Home, r.bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", r.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return r
}

// noTools leaves only the tools of the rig.
func (r *rig) noTools() {
	r.t.Setenv("PATH", r.bin)
	dirs := adminDirs
	adminDirs = nil
	r.t.Cleanup(func() { adminDirs = dirs })
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// tool writes a stand-in for a tool. ROOT in the script is the root directory.
func (r *rig) tool(name, script string) {
	r.t.Helper()
	path := filepath.Join(r.bin, name)
	r.write(path, "#!/bin/sh\nset -eu\nROOT='"+r.machine.Root+"'\n"+script)
	if err := os.Chmod(path, 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) run(command ...string) {
	r.t.Helper()
	if out, err := exec.CommandContext(r.t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// tree is every file and link below a directory with its content.
func (r *rig) tree(dir string) map[string]string {
	r.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if target, err := os.Readlink(path); err == nil {
			found[path] = "-> " + target
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

func (r *rig) sameTree(before map[string]string) {
	r.t.Helper()
	after := r.tree(r.machine.Root)
	if maps.Equal(before, after) {
		return
	}
	for path, text := range after {
		if was, ok := before[path]; !ok || was != text {
			r.t.Errorf("%s is new or has changed: %.80q", path, text)
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			r.t.Errorf("%s is gone", path)
		}
	}
}

func (r *rig) store(kind string) *Store {
	r.t.Helper()
	stores, err := r.machine.Ready(kind)
	if err != nil || len(stores) != 1 {
		r.t.Fatalf("got %d stores, %v", len(stores), err)
	}
	return stores[0]
}

func (r *rig) want(s *Store, c *x509.Certificate, want State) {
	r.t.Helper()
	if got, err := s.State(r.t.Context(), c); got != want || err != nil {
		r.t.Fatalf("state %d, %v; want %d", got, err, want)
	}
}

func (r *rig) install(s *Store) {
	r.t.Helper()
	if err := s.Install(r.t.Context(), r.ca, r.file); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(s *Store) {
	r.t.Helper()
	if _, err := s.Remove(r.t.Context(), r.ca); err != nil {
		r.t.Fatal(err)
	}
}

// errorOf returns the error of Remove.
func errorOf(_ bool, err error) error { return err }

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(err.Error(), part) }) {
		t.Errorf("got the error %v, want %q", err, parts)
	}
}

// A distribution is a kind of system store: files that exist before, and its tools.
type distribution struct {
	anchors, bundle string
	setup           func(*rig)
}

// collect is the part of a stand-in that joins the certificates of a directory, all of which must
// be readable by all users.
const collect = `collect() {
	for f in "$1"/*; do
		test -e "$f" || continue
		case $(ls -lL "$f") in -rw-r--r--*) ;; *) echo "$f has the wrong mode" >&2; exit 1;; esac
		head -n 1 "$f" | grep -q 'BEGIN CERTIFICATE' && tail -n 1 "$f" | grep -q 'END CERTIFICATE' || { echo "$f: cannot be parsed" >&2; exit 1; }
		cat "$f"
	done
}
`

var distributions = map[string]distribution{
	"debian": {"/usr/local/share/ca-certificates", "/etc/ssl/certs/ca-certificates.crt", func(r *rig) {
		path, err := find("update-ca-certificates")
		if text, _ := os.ReadFile(path); err != nil || !strings.Contains(string(text), "--localcertsdir") {
			r.t.Skip("Debian's update-ca-certificates is not installed")
		}
		r.write(r.machine.at("/etc/ca-certificates.conf"), "company/company.crt\n")
		r.write(r.machine.at("/usr/share/ca-certificates/company/company.crt"), string(encode(r.other)))
		r.write(r.machine.at("/usr/local/share/ca-certificates/local.crt"), string(encode(newCA(r.t, "Local", "Local CA"))))
		r.write(r.machine.at("/etc/ssl/certs/README"), "links\n")
	}},
	"fedora": {"/etc/pki/ca-trust/source/anchors", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", func(r *rig) {
		r.write(r.machine.at("/etc/pki/ca-trust/source/anchors/company.pem"), string(encode(r.other)))
		r.write(r.machine.at("/etc/pki/ca-trust/extracted/pem/README"), "extracted\n")
		r.write(r.machine.at("/etc/pki/tls/certs/README"), "links\n")
		r.tool("update-ca-trust", collect+`test "$#:$1" = 1:extract || { echo "usage: update-ca-trust extract" >&2; exit 2; }
collect "$ROOT/etc/pki/ca-trust/source/anchors" > "$ROOT/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
mkdir -p "$ROOT/etc/pki/ca-trust/extracted/openssl"
sed 's/ CERTIFICATE/ TRUSTED CERTIFICATE/' "$ROOT/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem" > "$ROOT/etc/pki/ca-trust/extracted/openssl/ca-bundle.trust.crt"
ln -sf ../../ca-trust/extracted/pem/tls-ca-bundle.pem "$ROOT/etc/pki/tls/certs/ca-bundle.crt"
`)
	}},
	"arch": {"/etc/ca-certificates/trust-source/anchors", "/etc/ssl/certs/ca-certificates.crt", func(r *rig) {
		r.write(r.machine.at("/etc/ca-certificates/trust-source/anchors/company.crt"), string(encode(r.other)))
		r.write(r.machine.at("/etc/ca-certificates/extracted/README"), "extracted\n")
		r.write(r.machine.at("/etc/ssl/certs/README"), "links\n")
		r.tool("trust", collect+`test "$#:$1" = 1:extract-compat || { echo "usage: trust command <args>..." >&2; exit 2; }
collect "$ROOT/etc/ca-certificates/trust-source/anchors" > "$ROOT/etc/ca-certificates/extracted/tls-ca-bundle.pem"
ln -sf ../../ca-certificates/extracted/tls-ca-bundle.pem "$ROOT/etc/ssl/certs/ca-certificates.crt"
`)
	}},
	"opensuse": {"/etc/pki/trust/anchors", "/var/lib/ca-certificates/ca-bundle.pem", func(r *rig) {
		r.write(r.machine.at("/etc/pki/trust/anchors/company.pem"), string(encode(r.other)))
		r.write(r.machine.at("/var/lib/ca-certificates/README"), "extracted\n")
		r.tool("update-ca-certificates", collect+`case "$#:$*" in 0:|1:--fresh) ;; *) echo "invalid option" >&2; exit 2;; esac
collect "$ROOT/etc/pki/trust/anchors" > "$ROOT/var/lib/ca-certificates/ca-bundle.pem"
`)
	}},
}

// eachDistribution runs a test with the store of each kind, after its tool has run once.
func eachDistribution(t *testing.T, test func(t *testing.T, r *rig, d distribution, s *Store)) {
	for _, name := range slices.Sorted(maps.Keys(distributions)) {
		t.Run(name, func(t *testing.T) {
			d := distributions[name]
			r := newRig(t)
			d.setup(r)
			s := r.store(System)
			if _, err := r.machine.run(t.Context(), nil, s.backend.(*anchors).updater(false)...); err != nil {
				t.Fatal(err)
			}
			r.want(s, r.ca, Absent)
			r.want(s, r.other, Trusted)
			test(t, r, d, s)
			r.want(s, r.other, Trusted)
		})
	}
}

func (r *rig) anchor(d distribution) string {
	return r.machine.at(fmt.Sprintf("%s/perigee-%s.crt", d.anchors, ID(r.ca)))
}
