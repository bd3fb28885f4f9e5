// Package daemontest has what the tests of a whole daemon share: the daemon in the test's process and in one of its own,
// providers that it calls, and clients that ask it.
package daemontest

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/vault"
)

// Main runs the tests of a package, without the owner's keyring, and fails if they leave goroutines behind. A program that
// StartChild has started is the daemon instead.
func Main(m *testing.M) {
	flag.Parse()
	_ = os.Setenv(vault.Variable, "off")
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}
