package truststore

import (
	"crypto/x509"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newDatabase makes an NSS database with the real tool, which has the certificate of another CA.
func (r *rig) newDatabase(place string, password string) (dir string) {
	r.t.Helper()
	if path, err := find("certutil"); err != nil || filepath.Dir(path) == r.bin {
		r.t.Skip("certutil of NSS is not installed (libnss3-tools, nss-tools)")
	}
	dir = filepath.Join(r.machine.Home, place)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "password")
	r.write(file, password+"\n")
	r.run("certutil", "-N", "-d", "sql:"+dir, "-f", file)
	r.addByHand(dir, "Company CA", r.other, "C,,", file)
	return dir
}

func (r *rig) addByHand(dir, name string, c *x509.Certificate, trust, password string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "ca.pem")
	r.write(file, string(encode(c)))
	r.run("certutil", "-A", "-d", "sql:"+dir, "-n", name, "-t", trust, "-i", file, "-f", password)
}

func TestNSSInstallAndRemove(t *testing.T) {
	r := newRig(t)
	r.newDatabase(".pki/nssdb", "")
	r.newDatabase(".mozilla/firefox/abc.default [x]", "")
	r.write(filepath.Join(r.machine.Home, ".mozilla/firefox/profiles.ini"), "")
	stores, err := r.machine.Ready(NSS)
	if err != nil || len(stores) != 2 {
		t.Fatalf("got %d stores, %v", len(stores), err)
	}
	for _, s := range stores {
		r.want(s, r.ca, Absent)
		for range 2 {
			r.install(s)
			r.want(s, r.ca, Trusted)
		}
		if found, err := r.machine.Leftovers(t.Context()); err != nil || len(found) != 1 || !found[0].Certificate.Equal(r.ca) {
			t.Errorf("leftovers: got %v, %v", found, err)
		}
		r.remove(s)
		r.want(s, r.ca, Absent)
		r.want(s, r.other, Trusted)
	}
}

// A certificate is found by its content, whatever its nickname is.
func TestNSSCertificateUnderAnotherNickname(t *testing.T) {
	r := newRig(t)
	dir := r.newDatabase(".pki/nssdb", "")
	s := r.store(NSS)
	r.addByHand(dir, "my proxy", r.ca, ",,", "/dev/null")
	r.want(s, r.ca, Partial) // without trust
	if line := s.RemoveLine(r.ca); line != "certutil -D -d sql:"+dir+" -n 'my proxy'" {
		t.Errorf("the command is %s", line)
	}
	r.install(s)
	r.want(s, r.ca, Trusted)
	r.remove(s)
	r.want(s, r.ca, Absent)
	r.want(s, r.other, Trusted)
}

func TestNSSOtherCertificateOfTheSameNicknameStays(t *testing.T) {
	r := newRig(t)
	dir := r.newDatabase(".pki/nssdb", "")
	s := r.store(NSS)
	other := newCA(t, "perigee", r.ca.Subject.CommonName) // the same subject
	r.install(s)
	r.addByHand(dir, nickname(r.ca), other, "C,,", "/dev/null")
	wantError(t, errorOf(s.Remove(t.Context(), r.ca)), "other certificates have the nickname", ID(r.ca))
	r.want(s, other, Trusted)
	r.want(s, r.ca, Trusted)
}

func TestNSSPrimaryPassword(t *testing.T) {
	r := newRig(t)
	dir := r.newDatabase(".pki/nssdb", "correct horse")
	s := r.store(NSS)
	err := s.Install(t.Context(), r.ca, r.file)
	wantError(t, err, "primary password", "certutil -A -d sql:"+dir, r.file)
}

// certutil is not needed to find a certificate.
func TestNSSWithoutTheTool(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.machine.Home, ".pki/nssdb")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, nssFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{`CREATE TABLE nssPublic (id PRIMARY KEY UNIQUE ON CONFLICT ABORT, a0, a3, a11)`,
		`INSERT INTO nssPublic VALUES (1, x'00000001', CAST('perigee' AS BLOB), ?), (2, x'CE534353', 'x', NULL), (3, x'00000001', NULL, x'30')`} {
		args := []any{r.ca.Raw}[:strings.Count(statement, "?")]
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r.noTools()
	_, err = r.machine.Ready(NSS)
	wantError(t, err, dir, "certutil", "libnss3-tools")
	s := r.machine.Stores(NSS)[0]
	r.want(s, r.ca, Partial)
	r.want(s, r.other, Absent)
	if _, err := s.Remove(t.Context(), r.other); err != nil {
		t.Error(err)
	}
	wantError(t, errorOf(s.Remove(t.Context(), r.ca)), "libnss3-tools")
	r.write(filepath.Join(dir, nssFile), "no database at all, but longer than the header of one, which has a hundred bytes ..................")
	_, err = s.State(t.Context(), r.ca)
	wantError(t, err, dir, "cannot read cert9.db")
}

func TestNSSWithoutDatabases(t *testing.T) {
	r := newRig(t)
	_, err := r.machine.Ready(NSS)
	wantError(t, err, r.machine.Home, "start Firefox or Chromium once")
}
