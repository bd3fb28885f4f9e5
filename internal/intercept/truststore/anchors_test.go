package truststore

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

func TestInstallAndRemoveLeaveTheSystemAsItWas(t *testing.T) {
	eachDistribution(t, func(t *testing.T, r *rig, d distribution, s *Store) {
		before := r.tree(r.machine.Root)
		r.install(s)
		r.want(s, r.ca, Trusted)
		if text, err := os.ReadFile(r.machine.at(d.bundle)); err != nil || !strings.Contains(string(text), string(encode(r.ca))) {
			t.Errorf("the bundle does not have it: %v", err)
		}
		r.install(s) // again
		r.want(s, r.ca, Trusted)
		r.remove(s)
		r.want(s, r.ca, Absent)
		r.sameTree(before)
		r.remove(s) // again
		r.sameTree(before)
	})
}

func TestInterruptedChangesAreMended(t *testing.T) {
	perigeetest.Slow(t)
	interruptions := map[string]func(r *rig, d distribution, s *Store){
		"an empty file":           func(r *rig, d distribution, _ *Store) { r.write(r.anchor(d), "") },
		"a part of the file":      func(r *rig, d distribution, _ *Store) { r.write(r.anchor(d), string(encode(r.ca))[:100]) },
		"the tool did not run":    func(r *rig, d distribution, _ *Store) { r.write(r.anchor(d), string(encode(r.ca))) },
		"the removal did not end": func(r *rig, d distribution, s *Store) { r.install(s); _ = os.Remove(r.anchor(d)) },
	}
	for name, interrupt := range interruptions {
		t.Run(name, func(t *testing.T) {
			eachDistribution(t, func(_ *testing.T, r *rig, d distribution, s *Store) {
				before := r.tree(r.machine.Root)
				interrupt(r, d, s)
				r.remove(s)
				r.want(s, r.ca, Absent)
				r.sameTree(before)
				interrupt(r, d, s)
				r.install(s)
				r.want(s, r.ca, Trusted)
				r.remove(s)
				r.sameTree(before)
			})
		})
	}
}

// A certificate is found by its content, whatever its file is called.
func TestCertificateUnderAnotherNameIsRemoved(t *testing.T) {
	eachDistribution(t, func(t *testing.T, r *rig, d distribution, s *Store) {
		before := r.tree(r.machine.Root)
		r.write(r.machine.at(d.anchors+"/by-hand.crt"), string(encode(r.ca)))
		if _, err := r.machine.run(t.Context(), nil, s.backend.(*anchors).updater(true)...); err != nil {
			t.Fatal(err)
		}
		r.want(s, r.ca, Trusted)
		if line := s.RemoveLine(r.ca); !strings.Contains(line, "by-hand.crt") {
			t.Errorf("the command is %s", line)
		}
		r.remove(s)
		r.sameTree(before)
	})
}

func TestFilesOfAdministratorsStay(t *testing.T) {
	eachDistribution(t, func(t *testing.T, r *rig, d distribution, s *Store) {
		// A file with several certificates.
		joined := r.machine.at(d.anchors + "/joined.crt")
		r.write(joined, string(encode(r.ca))+string(encode(newCA(t, "Other", "Other CA"))))
		before := r.tree(r.machine.Root)
		wantError(t, errorOf(s.Remove(t.Context(), r.ca)), joined, "by hand")
		r.sameTree(before)
		if err := os.Remove(joined); err != nil {
			t.Fatal(err)
		}
		// A file under the name that perigee uses.
		r.write(r.anchor(d), string(encode(newCA(t, "Other", "Other CA"))))
		before = r.tree(r.machine.Root)
		wantError(t, s.Install(t.Context(), r.ca, r.file), r.anchor(d), "is another file")
		r.remove(s)
		r.sameTree(before)
	})
}

func TestFailingToolsAreReported(t *testing.T) {
	t.Run("it fails", func(t *testing.T) {
		eachDistribution(t, func(t *testing.T, r *rig, _ distribution, s *Store) {
			name := s.backend.(*anchors).update[0]
			r.tool(name, "echo 'the disk is full' >&2\nexit 7\n")
			wantError(t, s.Install(t.Context(), r.ca, r.file), name, "exit status 7", "the disk is full")
			r.want(s, r.ca, Partial)
			wantError(t, errorOf(s.Remove(t.Context(), r.ca)), "the disk is full")
		})
	})
	t.Run("it does nothing", func(t *testing.T) {
		eachDistribution(t, func(t *testing.T, r *rig, _ distribution, s *Store) {
			name := s.backend.(*anchors).update[0]
			r.tool("openssl", "exit 0\n") // accepts everything
			r.tool(name, "exit 0\n")
			wantError(t, s.Install(t.Context(), r.ca, r.file), "is not trusted afterwards", "perigee ca remove")
			wantError(t, errorOf(s.Remove(t.Context(), r.ca)), "openssl still accepts")
		})
	})
	t.Run("OpenSSL disagrees", func(t *testing.T) {
		eachDistribution(t, func(t *testing.T, r *rig, _ distribution, s *Store) {
			real, err := find("openssl")
			if err != nil {
				t.Skip("openssl is not installed")
			}
			r.tool("openssl", `test "$1" != verify || { echo 'self-signed certificate' >&2; exit 2; }
exec `+real+` "$@"
`)
			wantError(t, s.Install(t.Context(), r.ca, r.file), "openssl does not accept", "self-signed certificate")
		})
	})
	t.Run("it is missing", func(t *testing.T) {
		r := newRig(t)
		r.write(r.machine.at("/etc/pki/ca-trust/source/anchors/company.pem"), string(encode(r.other)))
		r.noTools()
		_, err := r.machine.Ready(System)
		wantError(t, err, "update-ca-trust", "install the package ca-certificates")
	})
	t.Run("there is no store", func(t *testing.T) {
		r := newRig(t)
		_, err := r.machine.Ready(System)
		wantError(t, err, "is not supported", "/usr/local/share/ca-certificates", "SSL_CERT_FILE")
	})
}

// The hook for Java gets no list of what was removed from Debian's tool.
func TestJavaKeystoreIsCleaned(t *testing.T) {
	r := newRig(t)
	d := distributions["debian"]
	d.setup(r)
	keystore, hook := r.machine.at("/etc/ssl/certs/java/cacerts"), r.machine.at("/etc/ca-certificates/update.d/jks-keystore")
	r.write(keystore, "JKS")
	r.write(hook, `#!/bin/sh
while read line; do
	case $line in
	+*perigee*) openssl x509 -in "${line#+}" -outform DER >> '`+keystore+`';;
	-*`+r.machine.at("/etc/ssl/certs")+"/perigee-"+ID(r.ca)+`.pem) printf JKS > '`+keystore+`';;
	esac
done
`)
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	s := r.store(System)
	r.install(s)
	if text, _ := os.ReadFile(keystore); !strings.Contains(string(text), string(r.ca.Raw)) {
		t.Fatal("the hook did not run")
	}
	r.remove(s)
	if text, err := os.ReadFile(keystore); string(text) != "JKS" {
		t.Errorf("the keystore has %d bytes, %v", len(text), err)
	}
	r.install(s)
	r.run("sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; "+strings.ReplaceAll(s.RemoveLine(r.ca), "sudo ", "")) // by hand, as root
	r.want(s, r.ca, Absent)
	r.install(s)
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	wantError(t, errorOf(s.Remove(t.Context(), r.ca)), "still there")
}

// Users other than root get the commands to run.
func TestPermissionIsExplained(t *testing.T) {
	eachDistribution(t, func(t *testing.T, r *rig, d distribution, s *Store) {
		dir := r.machine.at(d.anchors)
		perigeetest.Unprivileged(t)
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		wantError(t, s.Install(t.Context(), r.ca, r.file), "needs root", "sudo install -D -m 0644 "+r.file+" "+r.anchor(d), " && sudo ")
	})
}

func TestHolds(t *testing.T) {
	a, b := newCA(t, "perigee", "perigee a"), newCA(t, "perigee", "perigee b")
	withTrust := pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: append(append([]byte{}, a.Raw...), "\x30\x03abc"...)})
	for name, text := range map[string][]byte{
		"alone": encode(a), "after another": append(encode(b), encode(a)...), "with text": append([]byte("# perigee\r\n"), encode(a)...),
		"with trust settings": withTrust, "in a keystore": append([]byte("\xfe\xed\xfe\xed"), a.Raw...),
	} {
		if !hasCertificate(text, a) {
			t.Errorf("%s: not found", name)
		}
	}
	for name, text := range map[string][]byte{"another": encode(b), "empty": nil, "a part": encode(a)[:200]} {
		if hasCertificate(text, a) {
			t.Errorf("%s: found", name)
		}
	}
}

func TestLeftovers(t *testing.T) {
	eachDistribution(t, func(t *testing.T, r *rig, _ distribution, s *Store) {
		if found, err := r.machine.Leftovers(t.Context()); len(found) != 0 || err != nil {
			t.Fatalf("got %v, %v", found, err)
		}
		r.install(s)
		if found, err := r.machine.Leftovers(t.Context(), filepath.Dir(r.file)); len(found) != 0 || err != nil {
			t.Errorf("the CA is there, but got %v, %v", found, err)
		}
		found, err := r.machine.Leftovers(t.Context(), t.TempDir())
		if err != nil || len(found) != 1 || !found[0].Certificate.Equal(r.ca) || found[0].Store.Path != s.Path {
			t.Errorf("got %v, %v", found, err)
		}
	})
}
