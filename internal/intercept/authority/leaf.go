package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	leafLifetime = 7 * 24 * time.Hour
	// leafRenew is the time left at which a leaf is replaced.
	leafRenew = 2 * 24 * time.Hour
	// maxCommonName is the limit of X.509. A longer host is in the alternative names only.
	maxCommonName = 64
	maxHost       = 253
)

// A leaf is the certificate of one host, made when it is first used. Its lock lets one goroutine
// make it; the other goroutines wait.
type leaf struct {
	mu   sync.Mutex
	cert *tls.Certificate
}

// Leaf returns a certificate for a host of the list, and an error for any other host. Certificates
// are cached, and replaced two days before their end, or if the clock was set back to before their
// start.
func (a *Authority) Leaf(host string) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isHostName(name) || !a.hosts.Match(name) {
		return nil, fmt.Errorf("no certificate for %q: it is not among the intercepted hosts", host)
	}
	now := a.now()
	if root := a.info.Certificate; !now.Before(root.NotAfter) || now.Before(root.NotBefore) {
		return nil, fmt.Errorf("no certificate for %q: the clock says %s, but the authority in %s is valid from %s to %s; "+
			"set the clock, or restart perigee to get a new authority if this one has ended",
			host, stamp(now), a.dir, stamp(root.NotBefore), stamp(root.NotAfter))
	}
	a.mu.Lock()
	l, ok := a.leaves.Get(name)
	if !ok {
		l = &leaf{}
		a.leaves.Put(name, l)
	}
	a.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cert != nil && a.fresh(l.cert.Leaf, now) {
		return l.cert, nil
	}
	cert, err := a.sign(name, now)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	l.cert = cert
	return cert, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// fresh reports whether a leaf can be used. The last one ends together with the authority and is
// not replaced before.
func (a *Authority) fresh(c *x509.Certificate, now time.Time) bool {
	if now.Before(c.NotBefore) || !now.Before(c.NotAfter) {
		return false
	}
	return c.NotAfter.Sub(now) > leafRenew || c.NotAfter.Equal(a.info.NotAfter)
}

// sign makes a leaf with a key of its own.
func (a *Authority) sign(name string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := a.info.Certificate
	template := &x509.Certificate{
		NotBefore:   later(now.Add(-backdate), root.NotBefore),
		NotAfter:    earlier(now.Add(leafLifetime), root.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name},
	}
	if len(name) <= maxCommonName {
		template.Subject = pkix.Name{CommonName: name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, root, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// isHostName reports whether a name in lower case can be a DNS name of a certificate.
func isHostName(name string) bool {
	if name == "" || len(name) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}
