// Package reloadtests tests that a daemon follows its configuration file, whatever is written to
// it.
package reloadtests

import (
	"testing"

	"perigee/internal/testing/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
