package daemon_test

import (
	"flag"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/vault"
)

var update = flag.Bool("update", false, "write what happened into the transcripts")

func TestMain(m *testing.M) {
	flag.Parse()
	_ = os.Setenv(vault.Variable, "off") // the owner's keyring is not for tests
	if os.Getenv(helperVariable) != "" {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}
