package truststore

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

// anchors is a trust store of Linux: administrators put certificates into a directory, and a tool
// writes the files that programs read.
type anchors struct {
	machine Machine
	dir     string   // of the administrator's certificates
	marks   []string // one of these files exists if this is the store; dir if empty
	update  []string // the tool
	fresh   []string // its arguments after a removal
	pack    string   // the package with the tool
	bundles []string // files that must have the certificate, as far as they exist, and at least one
	hashed  string   // a directory with links by hash, as OpenSSL uses; may be empty
	stores  []string // files and directories that must not have it after a removal
}

// kinds are the known stores, which differ in their directories. Several distributions use each of
// them.
var kinds = []anchors{
	{ // Fedora, RHEL, Amazon Linux
		dir: "/etc/pki/ca-trust/source/anchors", update: []string{"update-ca-trust", "extract"}, pack: "ca-certificates",
		bundles: []string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt"},
		stores: []string{"/etc/pki/ca-trust/extracted/openssl", "/etc/pki/ca-trust/extracted/pem", "/etc/pki/ca-trust/extracted/pem/directory-hash",
			"/etc/pki/ca-trust/extracted/java"},
	},
	{ // openSUSE
		dir: "/etc/pki/trust/anchors", update: []string{"update-ca-certificates"}, fresh: []string{"--fresh"}, pack: "ca-certificates",
		bundles: []string{"/var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/ca-bundle.pem"},
		stores:  []string{"/var/lib/ca-certificates", "/var/lib/ca-certificates/openssl", "/var/lib/ca-certificates/pem"},
	},
	{ // Arch Linux
		dir: "/etc/ca-certificates/trust-source/anchors", update: []string{"trust", "extract-compat"}, pack: "p11-kit",
		bundles: []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/ca-certificates/extracted/tls-ca-bundle.pem"},
		stores: []string{"/etc/ca-certificates/extracted", "/etc/ca-certificates/extracted/cadir", "/etc/ssl/certs",
			"/etc/ssl/certs/java"},
	},
	{ // Debian, Ubuntu, Alpine, Gentoo
		dir: "/usr/local/share/ca-certificates", marks: []string{"/usr/local/share/ca-certificates", "/etc/ca-certificates.conf"},
		update: []string{"update-ca-certificates"}, fresh: []string{"--fresh"}, pack: "ca-certificates",
		bundles: []string{"/etc/ssl/certs/ca-certificates.crt"}, hashed: "/etc/ssl/certs",
		stores: []string{"/etc/ssl/certs", "/etc/ssl/certs/java"},
	},
}

func knownDirs() string {
	var dirs []string
	for _, k := range kinds {
		dirs = append(dirs, k.dir)
	}
	return strings.Join(dirs, ", ")
}

// anchors returns the store of this system, or nil.
func (m Machine) anchors() *anchors {
	for _, k := range kinds {
		k.machine = m
		if len(k.marks) == 0 {
			k.marks = []string{k.dir}
		}
		if slices.ContainsFunc(k.marks, func(path string) bool { _, err := os.Stat(m.at(path)); return err == nil }) {
			return &k
		}
	}
	return nil
}

func (a *anchors) ready() error {
	if _, err := find(a.update[0]); err != nil {
		return fmt.Errorf("the trust store %s needs the program %s, which is missing; install the package %s",
			a.machine.at(a.dir), a.update[0], a.pack)
	}
	return nil
}

// file returns the path that a certificate is written to.
func (a *anchors) file(c *x509.Certificate) string {
	return filepath.Join(a.machine.at(a.dir), "perigee-"+ID(c)+".crt")
}

func (a *anchors) commands(c *x509.Certificate, file string) [][]string {
	if file != "" {
		return [][]string{{"install", "-D", "-m", "0644", file, a.file(c)}, a.updater(true)}
	}
	commands := [][]string{}
	files, _ := a.files(c)
	if len(files) == 0 {
		files = []string{a.file(c)}
	}
	for _, file := range files {
		commands = append(commands, []string{"rm", "-f", file})
	}
	commands = append(commands, a.updater(false))
	if hook, lines := a.javaHook(c, files); hook != "" {
		commands = append(commands, []string{"sh", "-c", `printf '%s\n' ` + strings.Join(strings.Fields(lines), " ") + " | " + hook})
	}
	return commands
}

// updater returns the tool with its arguments. The tool of Debian removes the links to a removed
// certificate only with --fresh.
func (a *anchors) updater(add bool) []string {
	command := slices.Clone(a.update)
	if !add {
		command = append(command, a.fresh...)
	}
	if a.machine.Root != "" && a.hashed != "" {
		command = append(command, "--certsconf", a.machine.at("/etc/ca-certificates.conf"), "--certsdir", a.machine.at("/usr/share/ca-certificates"),
			"--localcertsdir", a.machine.at(a.dir), "--etccertsdir", a.machine.at(a.hashed), "--hooksdir", a.machine.at("/etc/ca-certificates/update.d"))
	}
	return command
}

func (a *anchors) change(ctx context.Context, c *x509.Certificate, file string) (err error) {
	add, inShell := file != "", a.commands(c, file)
	var files []string
	if add {
		err = writeAnchor(a.file(c), encode(c))
	} else {
		files, err = a.removeFiles(c)
	}
	if err == nil {
		_, err = a.machine.run(ctx, nil, a.updater(add)...)
	}
	if hook, lines := a.javaHook(c, files); err == nil && !add && hook != "" {
		_, err = a.machine.run(ctx, []byte(lines), hook)
	}
	if err == nil {
		err = a.verifyWithOpenSSL(ctx, c, add)
	}
	return asRoot(err, inShell)
}

// writeAnchor writes a file that all users can read, independent of the umask. It does not replace
// another file of that name and returns an error. An incomplete copy of the same file is the rest
// of an interrupted installation and is replaced.
func writeAnchor(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch was, err := os.ReadFile(path); {
	case err == nil && bytes.Equal(was, text):
		return os.Chmod(path, 0o644)
	case err == nil && !bytes.HasPrefix(text, was):
		return fmt.Errorf("%s exists and is another file; move it away", path)
	case err == nil:
		if err := os.Remove(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// files returns the files of the administrator that have a certificate, or an incomplete copy of
// it under the name that it gets.
func (a *anchors) files(c *x509.Certificate) (found []string, err error) {
	err = filepath.WalkDir(a.machine.at(a.dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a link to nothing
		}
		if err == nil && (hasCertificate(text, c) || path == a.file(c) && bytes.HasPrefix(encode(c), text)) {
			found = append(found, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

func (a *anchors) removeFiles(c *x509.Certificate) (files []string, err error) {
	if files, err = a.files(c); err != nil {
		return nil, err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if len(blocks(text)) > 1 {
			return nil, fmt.Errorf("%s has other certificates as well; take the one with the fingerprint %s… out of it by hand", path, ID(c))
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// javaHook returns the program that updates the keystore of Java on Debian, if that has a
// certificate, and its input. The tool does not pass the removed certificates to it.
func (a *anchors) javaHook(c *x509.Certificate, files []string) (hook, lines string) {
	hook = a.machine.at("/etc/ca-certificates/update.d/jks-keystore")
	if _, err := os.Stat(hook); err != nil {
		return "", ""
	}
	if text, err := os.ReadFile(a.machine.at("/etc/ssl/certs/java/cacerts")); err != nil || !hasCertificate(text, c) {
		return "", ""
	}
	for _, path := range append(files, a.file(c)) {
		line := "-" + filepath.Join(a.machine.at("/etc/ssl/certs"), strings.TrimSuffix(filepath.Base(path), ".crt")+".pem") + "\n"
		if !strings.Contains(lines, line) {
			lines += line
		}
	}
	return hook, lines
}

// state reads the files of the administrator, and all files that the tool writes.
func (a *anchors) state(ctx context.Context, c *x509.Certificate) (State, error) {
	files, err := a.files(c)
	if err != nil {
		return Absent, err
	}
	exist, have := 0, 0
	for _, path := range a.bundles {
		text, err := os.ReadFile(a.machine.at(path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Absent, err
		}
		exist++
		if acceptedBy(text, c) {
			have++
		}
	}
	links, linked, err := a.links(c)
	if err != nil {
		return Absent, err
	}
	if exist > 0 && have == exist && (!links || linked) {
		return Trusted, nil
	}
	if len(files) > 0 || have > 0 || linked {
		return Partial, nil
	}
	for _, dir := range a.stores {
		if left, err := a.isIn(a.machine.at(dir), c); err != nil || left {
			return Partial, err
		}
	}
	return Absent, ctx.Err()
}

// acceptedBy reports whether Go accepts a certificate with the roots of a bundle.
func acceptedBy(bundle []byte, c *x509.Certificate) bool {
	if !slices.ContainsFunc(blocks(bundle), func(der []byte) bool { return bytes.Equal(der, c.Raw) }) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, CurrentTime: c.NotBefore})
	return err == nil
}

var hashName = lazyregexp.New(`^[0-9a-f]{8}\.[0-9]+$`)

// links reports whether there are any links by hash, and whether one leads to the certificate.
func (a *anchors) links(c *x509.Certificate) (any, linked bool, err error) {
	if a.hashed == "" {
		return false, false, nil
	}
	dir := a.machine.at(a.hashed)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	for _, entry := range entries {
		if !hashName().MatchString(entry.Name()) {
			continue
		}
		any = true
		if text, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil && hasCertificate(text, c) {
			return true, true, nil
		}
	}
	return any, false, nil
}

// isIn reports whether a file of a directory has a certificate, or is a link to its file.
func (a *anchors) isIn(dir string, c *x509.Certificate) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	name := strings.TrimSuffix(filepath.Base(a.file(c)), ".crt")
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(filepath.Base(target), name+".") {
			return true, nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			continue // programs cannot read it either
		}
		if err != nil || hasCertificate(text, c) {
			return err == nil, err
		}
	}
	return false, err
}

// verifyWithOpenSSL confirms the result with OpenSSL, if it is installed.
func (a *anchors) verifyWithOpenSSL(ctx context.Context, c *x509.Certificate, trusted bool) error {
	if _, err := find("openssl"); err != nil {
		return nil // it is not installed
	}
	roots := []string{"-CAfile", a.machine.at(a.bundles[0])}
	if any, _, _ := a.links(c); any {
		roots = []string{"-CApath", a.machine.at(a.hashed)}
	}
	if _, err := os.Stat(roots[1]); err != nil {
		return nil // the check that follows reports it
	}
	// Without these variables it would also accept the roots of the system, when Root is another.
	command := append([]string{"env", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/dev/null", "openssl", "verify"}, roots...)
	said, err := a.machine.run(ctx, encode(c), command...)
	switch {
	case trusted && err != nil:
		return fmt.Errorf("openssl does not accept the certificate afterwards: %w; perigee ca remove undoes the installation", err)
	case !trusted && err == nil:
		return fmt.Errorf("openssl still accepts the certificate %s afterwards: %s", ID(c), lastLines(said))
	}
	return nil
}

func (a *anchors) list(context.Context) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	add := func(path string) {
		if text, err := os.ReadFile(path); err == nil {
			all = append(all, certificates(text)...)
		}
	}
	err := filepath.WalkDir(a.machine.at(a.dir), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			add(path)
		}
		return err
	})
	for _, path := range a.bundles {
		add(a.machine.at(path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}
