package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/netguard"
)

// A pair is a certificate and its key.
type pair struct {
	info *Info
	key  *ecdsa.PrivateKey
}

// errDamaged means that the files exist but are not an authority of perigee.
var errDamaged = errors.New("not an authority of perigee, or damaged")

const (
	// lockTime is how long Open waits for another process that makes the authority.
	lockTime = 10 * time.Second
	// maxFile bounds the size of a file.
	maxFile = 1 << 20
)

// A hostsFile has the patterns of a certificate: name constraints can express only a part of them.
type hostsFile struct {
	Fingerprint string   `json:"fingerprint"` // of the certificate
	Hosts       []string `json:"hosts"`
}

// load reads the files of an authority and checks that they belong together. It returns the error
// of reading, or errDamaged.
func load(dir string) (*pair, error) {
	der, err := readPEM(certificatePath(dir), "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", certificatePath(dir), errDamaged, err)
	}
	if der, err = readPEM(keyPath(dir), "PRIVATE KEY"); err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath(dir), errDamaged) // the cause may quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s does not fit %s: %w", keyPath(dir), certificatePath(dir), errDamaged)
	}
	if !wellFormed(cert) {
		return nil, fmt.Errorf("%s: %w", certificatePath(dir), errDamaged)
	}
	return &pair{newInfo(dir, cert, readHosts(dir, cert)), key}, nil
}

// readPEM reads a file with one block of PEM.
func readPEM(path, kind string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	data, err := readFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; run perigee as the user who owns the file", err)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: %w", path, errDamaged)
	}
	return block.Bytes, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// readHosts returns the patterns of a certificate, or nil if they are not known.
func readHosts(dir string, cert *x509.Certificate) []string {
	data, err := readFile(hostsPath(dir))
	if err != nil {
		return nil
	}
	var file hostsFile
	if json.Unmarshal(data, &file) != nil || file.Fingerprint != Fingerprint(cert) {
		return nil
	}
	return sorted(file.Hosts)
}

// wellFormed reports whether a certificate has the limits of certificates that perigee makes, for
// any hosts.
func wellFormed(c *x509.Certificate) bool {
	return c.IsCA && c.MaxPathLenZero && c.MaxPathLen == 0 && c.CheckSignatureFrom(c) == nil && c.KeyUsage == x509.KeyUsageCertSign &&
		slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) && len(c.UnknownExtKeyUsage) == 0 &&
		c.PermittedDNSDomainsCritical && len(c.PermittedDNSDomains) > 0 && slices.EqualFunc(c.ExcludedIPRanges, everyIP(), sameNet) &&
		c.NotAfter.Sub(c.NotBefore) <= lifetime+backdate && len(c.SubjectKeyId) > 0
}

func everyIP() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
}

func sameNet(a, b *net.IPNet) bool { return a.String() == b.String() }

// renew makes an authority that replaces the existing one, unless another process has just done
// so.
func renew(dir string, hosts netguard.HostList, now time.Time) (p *pair, made bool, err error) {
	lock, err := atomicfile.Lock(context.Background(), filepath.Join(dir, "ca.lock"), lockTime)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = lock.Close() }()
	if p, err = load(dir); err == nil && p.info.Fits(hosts, now) {
		return p, false, nil
	}
	if err != nil && !replaceable(err) {
		return nil, false, err
	}
	if p, err = newPair(dir, hosts, now); err != nil {
		return nil, false, err
	}
	return p, true, p.write(dir)
}

// newPair makes a certificate and its key.
func newPair(dir string, hosts netguard.HostList, now time.Time) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(public)
	template := &x509.Certificate{
		// The name differs between authorities, because trust stores look up certificates by name.
		Subject:                     pkix.Name{Organization: []string{"perigee"}, CommonName: fmt.Sprintf("perigee interception %X", id[:4])},
		SubjectKeyId:                id[:20],
		NotBefore:                   now.Add(-backdate),
		NotAfter:                    now.Add(lifetime),
		IsCA:                        true,
		BasicConstraintsValid:       true,
		MaxPathLenZero:              true,
		KeyUsage:                    x509.KeyUsageCertSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         hosts.Constraints(),
		ExcludedIPRanges:            everyIP(),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &pair{newInfo(dir, cert, sorted(hosts.Patterns())), key}, nil
}

// write writes the files. Between two writes the files do not match, which load detects.
func (p *pair) write(dir string) error {
	key, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	hosts, err := json.Marshal(hostsFile{Fingerprint: p.info.Fingerprint, Hosts: p.info.Hosts})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(keyPath(dir), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})); err != nil {
		return err
	}
	if err := atomicfile.Write(hostsPath(dir), append(hosts, '\n')); err != nil {
		return err
	}
	return atomicfile.Write(certificatePath(dir), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.info.Certificate.Raw}))
}
