package main

import (
	"os"
	"path/filepath"
	"time"

	"perigee/internal/testing/testenv"
)

// A certificate is the files of a provider's certificate, which is its own authority, and of its
// key.
type certificate struct{ certificate, key string }

// makeCertificate makes one for loopback that is good for a day.
func makeCertificate(dir string) (*certificate, error) {
	now := time.Now()
	cert, key, err := testenv.Certificate("provider", now.Add(-time.Hour), now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	c := &certificate{filepath.Join(dir, "provider.pem"), filepath.Join(dir, "provider.key")}
	if err := os.WriteFile(c.certificate, cert, 0o600); err != nil {
		return nil, err
	}
	return c, os.WriteFile(c.key, key, 0o600)
}
