package config

import (
	"crypto/tls"
	"strings"
	"time"

	"perigee/internal/lib/netguard"
)

// maxCertificate is the largest size of the files of tls.
const maxCertificate = 256 << 10

// Unencrypted is in the warning about a listener for other machines without tls.
const Unencrypted = "keys and prompts are sent there unencrypted"

// checkTLS reads the certificate and its private key.
func (l *loader) checkTLS() {
	cert, key := l.Config.TLS.Cert, l.Config.TLS.Key
	switch {
	case !l.accepted("tls.cert"), !l.accepted("tls.key"), l.spared("tls.key"):
	case cert == "" && key == "":
		if !netguard.ListensOnLoopback(l.Config.Listen) {
			l.warn("listen", "listen: %s can be reached from other machines, and "+Unencrypted+"; "+
				"set tls, or let a proxy on this machine or in a trusted network encrypt them", l.Config.Listen)
		}
	case cert == "":
		l.problem("tls.key", "tls.key has no certificate beside it", "set tls.cert, or remove tls.key")
	case key == "":
		l.problem("tls.cert", "tls.cert has no private key beside it", "set tls.key, or remove tls.cert")
	default:
		l.readCertificate(cert, key)
	}
}

func (l *loader) readCertificate(certPath, keyPath string) {
	cert, certErr := l.readRegular(certPath, maxCertificate)
	key, keyErr := l.readRegular(keyPath, maxCertificate)
	if certErr != nil {
		l.refuse("tls.cert", certPath+": "+certErr.Error(), "")
	}
	if keyErr != nil {
		l.refuse("tls.key", keyPath+": "+keyErr.Error(), "")
	}
	if certErr != nil || keyErr != nil {
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		message, hint := explainPair(err)
		l.problem("tls.cert", "tls: "+message, hint)
		return
	}
	l.Certificate = &pair
	if leaf, now := pair.Leaf, l.src.Now(); !leaf.NotAfter.After(now) {
		l.warn("tls.cert", "tls.cert: the certificate expired on %s; clients will refuse it", leaf.NotAfter.UTC().Format(time.DateOnly))
	} else if leaf.NotBefore.After(now) {
		l.warn("tls.cert", "tls.cert: the certificate is not valid before %s; clients will refuse it", leaf.NotBefore.UTC().Format(time.DateOnly))
	}
	// Systems give services their keys through a group.
	if mode := l.modeForOthers(keyPath); mode&0o007 != 0 {
		l.warn("tls.key", "the private key %[1]s can be read by every user (mode %#[2]o); type: chmod o= %[1]s", keyPath, mode)
	}
}

// explainPair explains an error of tls.X509KeyPair without quoting the files.
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
