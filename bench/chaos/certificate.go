package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"perigee/internal/testing/testenv"
)

const certificateFile = "provider.pem"

// newCertificate makes a certificate for loopback that is its own authority, and writes it where
// perigee finds it.
func newCertificate(dir string) (*tls.Config, error) {
	now := time.Now()
	cert, key, err := testenv.Certificate("provider", now.Add(-time.Hour), now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, certificateFile), cert, 0o600); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}, err
}
