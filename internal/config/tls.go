package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"perigee/internal/names"
)

// maxCertificate is how large the files of tls may be.
const maxCertificate = 256 << 10

// checkTLS reads the certificate and its key, which have to belong together.
func (l *loader) checkTLS() {
	cert, key := l.config.TLS.Cert, l.config.TLS.Key
	if !l.good("tls") || !l.good("tls.cert") || !l.good("tls.key") || l.spared("tls.key") {
		return
	}
	switch {
	case cert == "" && key == "":
		l.warnAboutPlainHTTP()
		return
	case cert == "":
		l.problem("tls.key", "tls.key has no certificate beside it", "set tls.cert, or remove tls.key")
		return
	case key == "":
		l.problem("tls.cert", "tls.cert has no private key beside it", "set tls.key, or remove tls.cert")
		return
	}
	certPEM, certOK := l.readPEM("tls.cert", cert)
	keyPEM, keyOK := l.readPEM("tls.key", key)
	if !certOK || !keyOK {
		return
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		message, hint := explainPair(err)
		l.refuse(l.origin("tls.cert"), "tls", message, hint)
		return
	}
	l.certificate = &pair
	l.warnAboutCertificate()
}

func (l *loader) readPEM(key, path string) ([]byte, bool) {
	if info, err := os.Stat(path); l.src.ReadFile == nil && err == nil && !info.Mode().IsRegular() {
		l.refuse(l.origin(key), key, filepath.Clean(path)+" is not an ordinary file", "")
		return nil, false
	}
	text, err := l.read(path, maxCertificate)
	if err == nil {
		return text, true
	}
	message := reason(err)
	if errors.Is(err, fs.ErrNotExist) {
		message = "does not exist"
	}
	l.refuse(l.origin(key), key, fmt.Sprintf("%s: %s", filepath.Clean(path), message), "")
	return nil, false
}

// explainPair says what is wrong with a certificate and its key without quoting either.
func explainPair(err error) (message, hint string) {
	text := strings.TrimPrefix(err.Error(), "tls: ")
	switch {
	case strings.Contains(text, "does not match"):
		return "the private key in tls.key does not belong to the certificate in tls.cert",
			"use the key that the certificate was made with; the certificate itself comes first in tls.cert, then the intermediate ones"
	case strings.Contains(text, "key input"), strings.Contains(text, "private key") && !strings.Contains(text, "certificate input"):
		return "tls.key has no private key that can be used", "it has to be PEM without a passphrase (-----BEGIN PRIVATE KEY-----)"
	}
	return "tls.cert has no certificate that can be used: " + text, "it has to be PEM (-----BEGIN CERTIFICATE-----)"
}

// warnAboutCertificate names what clients will object to, and a key that other users can read. A group may have it:
// that is how systems hand keys to services.
func (l *loader) warnAboutCertificate() {
	leaf, now, origin := l.certificate.Leaf, l.src.Now(), l.origin("tls.cert")
	from, until := leaf.NotBefore.UTC().Format(time.DateOnly), leaf.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case !leaf.NotAfter.After(now):
		l.warnAt(origin, "tls.cert: the certificate expired on %s; clients will refuse it", until)
	case leaf.NotBefore.After(now):
		l.warnAt(origin, "tls.cert: the certificate is not valid before %s; clients will refuse it", from)
	}
	if l.src.ReadFile != nil || runtime.GOOS == "windows" {
		return
	}
	key := filepath.Clean(l.config.TLS.Key)
	if mode, ok := readableByOthers(key); ok && mode&0o007 != 0 {
		l.warnAt(l.origin("tls.key"), "the private key %[1]s can be read by every user (mode %#[2]o); type: chmod o= %[1]s", key, mode)
	}
}

// Unencrypted is in the warning about a listener for other machines without tls.
const Unencrypted = "keys and prompts are sent there unencrypted"

func (l *loader) warnAboutPlainHTTP() {
	host, _, err := net.SplitHostPort(l.config.Listen)
	if err == nil && l.good("listen") && !names.IsLoopback(host) {
		l.warnAt(l.origin("listen"), "listen: %s can be reached from other machines, and "+Unencrypted+"; "+
			"set tls, or let a proxy on this machine or in a trusted network encrypt them", l.config.Listen)
	}
}
