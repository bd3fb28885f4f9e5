package perigeetest

import (
	"testing"
	"time"

	"perigee/internal/testing/testenv"
)

// Certificate makes a self-signed certificate for this machine, and its key, both in PEM.
func Certificate(t testing.TB, name string, from, until time.Time) (cert, key []byte) {
	t.Helper()
	cert, key, err := testenv.Certificate(name, from, until)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
