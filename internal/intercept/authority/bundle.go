package authority

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"perigee/internal/lib/atomicfile"
)

// The locations of the certificates that systems trust, most common first.
var (
	systemFiles = []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Alpine
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
		"/etc/pki/tls/certs/ca-bundle.crt",                  // older RHEL
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/ssl/cert.pem",                                 // macOS, BSD
	}
	systemDirs = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// maxBundle bounds the size of one file with roots.
const maxBundle = 16 << 20

// WriteBundle writes bundle.pem, with mode 0600: the roots of the system and the certificate of
// the authority. A program that gets it as SSL_CERT_FILE trusts both; with the certificate alone
// it could reach no other host. The roots come from SSL_CERT_FILE and SSL_CERT_DIR of this process
// or, if these are not set, from the usual locations.
func (a *Authority) WriteBundle() (path string, err error) {
	path = filepath.Join(a.dir, "bundle.pem")
	b := bundle{seen: map[[32]byte]bool{}}
	b.add(a.info.Certificate.Raw)
	for _, file := range rootFiles(path) {
		if b.addFile(file) {
			break
		}
	}
	for _, dir := range rootDirs(b.count > 1) {
		b.addDir(dir, path)
	}
	if err := atomicfile.Write(path, b.text.Bytes()); err != nil {
		return "", fmt.Errorf("certificate bundle: %w", err)
	}
	return path, nil
}

// rootFiles returns the files to try, until one has certificates. It leaves out the bundle itself,
// which may have an earlier authority.
func rootFiles(bundle string) []string {
	file := os.Getenv("SSL_CERT_FILE")
	if file == "" || sameFile(file, bundle) {
		return systemFiles
	}
	return []string{file}
}

// rootDirs returns the directories of which all files are read. Directories of the system are left
// out if a file was found, because they have the same certificates.
func rootDirs(haveFile bool) []string {
	if dirs := os.Getenv("SSL_CERT_DIR"); dirs != "" {
		return filepath.SplitList(dirs)
	}
	if haveFile {
		return nil
	}
	return systemDirs
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == filepath.Clean(b)
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// A bundle is a set of certificates in PEM.
type bundle struct {
	text  bytes.Buffer
	seen  map[[32]byte]bool
	count int
}

func (b *bundle) add(der []byte) {
	sum := sha256.Sum256(der)
	if b.seen[sum] {
		return
	}
	b.seen[sum] = true
	b.count++
	// a buffer accepts every write
	_ = pem.Encode(&b.text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// addFile adds the certificates of a file and reports whether there were any. Other content of the
// file is left out.
func (b *bundle) addFile(path string) (found bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBundle))
	if err != nil {
		return false
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return found
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			b.add(block.Bytes)
			found = true
		}
	}
}

func (b *bundle) addDir(dir, except string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if path := filepath.Join(dir, entry.Name()); !sameFile(path, except) {
			b.addFile(path)
		}
	}
}
