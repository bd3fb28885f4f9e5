package daemon_test

import (
	"flag"
	"io"
	"os"
	"testing"

	"perigee/internal/testing/daemontest"
)

var update = flag.Bool("update", false, "write what happened into the transcripts")

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		os.Exit(0)
	}
	daemontest.Main(m)
}
