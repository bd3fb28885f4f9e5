// Package daemontest has what the tests of a whole daemon share: the daemon in the test's process
// and in one of its own, providers that it calls, and clients that ask it.
package daemontest

import (
	"context"
	"flag"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"perigee/internal/simulator/standin"
	"perigee/internal/store/vault"
	"perigee/internal/testing/perigeetest"
)

// parallel is how many tests run at once unless a flag of go test sets the number, or the race
// detector is on. They wait for files and connections more than they compute, but not with the race
// detector.
const parallel = 8

// Main runs the tests of a package, without the owner's keyring, and fails if they leave goroutines
// behind. A program that StartChild has started is the daemon instead, and one that a daemon has
// started with binary: simulator is the language server.
func Main(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue && !perigeetest.Raced {
		_ = flag.Set(f.Name, strconv.Itoa(parallel))
	}
	_ = os.Setenv(vault.Variable, "off")
	if flag.NArg() > 1 && flag.Arg(0) == "simulate" {
		os.Exit(standin.Main(context.Background(), standin.Command{
			Args: flag.Args()[2:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		}))
	}
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}
