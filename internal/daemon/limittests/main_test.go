// Package limittests tests the limits of a whole daemon: those of keys, and those of connections,
// heads, bodies and memory.
package limittests

import (
	"testing"

	"perigee/internal/testing/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
