// Package authority is the certificate authority of interception. Its certificate is valid for one
// year and, by critical name constraints, for the intercepted hosts alone; the key never leaves its
// directory. Leaf certificates are made on demand, each with a key of its own, and exist in memory
// only.
package authority

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/lib/lru"
	"perigee/internal/lib/netguard"
)

const (
	// lifetime is how long the certificate of the authority is valid.
	lifetime = 365 * 24 * time.Hour
	// renewBefore is the time left at which Open makes a new authority, so that leaves get their
	// full lifetime.
	renewBefore = leafLifetime
	// backdate is how far the validity of certificates starts in the past, for clients with slow
	// clocks.
	backdate = time.Hour
	// maxLeaves bounds the leaves in memory.
	maxLeaves = 1024
)

// An Authority signs leaf certificates for the hosts of its list. It is safe for concurrent use.
type Authority struct {
	dir   string
	hosts netguard.HostList
	now   func() time.Time
	info  *Info
	key   *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves lru.Map[string, *leaf] // by name, lower case, without a final dot
}

// Info describes the certificate of an authority.
type Info struct {
	Path        string    // of the certificate, in PEM; absolute
	Fingerprint string    // SHA-256, upper-case hex with colons
	NotAfter    time.Time // end of its validity
	Hosts       []string  // the patterns that it was made for
	Certificate *x509.Certificate

	known bool // Hosts are the patterns; otherwise they are the name constraints
}

// newInfo describes a certificate that was made for these patterns, which are nil if they are not
// known.
func newInfo(dir string, cert *x509.Certificate, patterns []string) *Info {
	hosts := patterns
	if hosts == nil {
		hosts = sorted(cert.PermittedDNSDomains)
	}
	return &Info{Path: certificatePath(dir), Fingerprint: Fingerprint(cert), NotAfter: cert.NotAfter, Hosts: hosts, Certificate: cert, known: patterns != nil}
}

// Fits reports whether Open keeps the authority for these hosts. An authority that is not valid yet
// is kept, because the clock may be wrong, and clients trust it.
func (i *Info) Fits(hosts netguard.HostList, now time.Time) bool {
	return i.NotAfter.Sub(now) >= renewBefore && slices.Equal(sorted(i.Certificate.PermittedDNSDomains), hosts.Constraints()) &&
		(!i.known || slices.Equal(i.Hosts, sorted(hosts.Patterns())))
}

// Open loads the authority of a directory, or makes it: if there is none, if it was made for other
// patterns, if its validity ends within a week, or if its files are damaged or not made by
// perigee. Then made is true, and clients must trust the new certificate. The directory gets mode
// 0700, its files 0600. Processes that open a directory at the same time with the same patterns
// get the same authority.
func Open(dir string, hosts netguard.HostList, now func() time.Time) (a *Authority, made bool, err error) {
	if len(hosts.Constraints()) == 0 {
		return nil, false, errors.New("a certificate authority needs at least one host: without name constraints it could sign for every host")
	}
	if now == nil {
		now = time.Now
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, false, fmt.Errorf("certificate authority: %w", err)
	}
	p, made, err := loadOrMake(dir, hosts, now())
	if err != nil {
		return nil, false, fmt.Errorf("certificate authority: %w", err)
	}
	a = &Authority{dir: dir, hosts: hosts, now: now, info: p.info, key: p.key}
	a.leaves.MaxEntries = maxLeaves
	return a, made, nil
}

// loadOrMake returns the pair of a directory, with restricted permissions.
func loadOrMake(dir string, hosts netguard.HostList, now time.Time) (p *pair, made bool, err error) {
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = restrict(dir, 0o700)
	}
	if err != nil {
		return nil, false, err
	}
	p, err = load(dir)
	// The lock is not needed here, so that a read-only directory works.
	if err == nil && p.info.Fits(hosts, now) {
		return p, false, restrict(keyPath(dir), 0o600)
	}
	if err != nil && !replaceable(err) {
		return nil, false, err
	}
	return renew(dir, hosts, now)
}

// Read describes the authority of a directory, and never makes one. It returns fs.ErrNotExist if
// there is none.
func Read(dir string) (*Info, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	p, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return p.info, nil
}

// Info describes the certificate of the authority.
func (a *Authority) Info() *Info { return a.info }

// restrict removes the permissions of other users.
func restrict(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, mode)
}

// replaceable reports whether an error of load means that there is no usable authority, so that a
// new one can be made. Files that cannot be read are not replaceable, because the authority may be
// in use.
func replaceable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged)
}

func certificatePath(dir string) string { return filepath.Join(dir, "ca.pem") }
func keyPath(dir string) string         { return filepath.Join(dir, "ca.key") }
func hostsPath(dir string) string       { return filepath.Join(dir, "ca.hosts") }

// Fingerprint returns the SHA-256 of a certificate, in upper-case hex with colons.
func Fingerprint(c *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(c.Raw)), " ", ":")
}

// sorted returns the patterns in the form in which they are compared: in lower case and sorted.
func sorted(patterns []string) []string {
	patterns = slices.Clone(patterns)
	for i := range patterns {
		patterns[i] = strings.ToLower(patterns[i])
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}
