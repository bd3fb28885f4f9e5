// Package accounttests tests the accounts of a whole daemon: how they are managed, leased, refused
// and shared by replicas, and that none is lost when a daemon is killed.
package accounttests

import (
	"testing"

	"perigee/internal/testing/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
