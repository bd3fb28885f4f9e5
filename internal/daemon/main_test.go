package daemon_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/seal"
)

var update = flag.Bool("update", false, "write what happened into the transcripts")

func TestMain(m *testing.M) {
	flag.Parse()
	_ = os.Setenv(seal.Variable, "off") // the owner's keyring is not for tests
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}
