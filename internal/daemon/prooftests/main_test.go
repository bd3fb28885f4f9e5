// Package prooftests tests a whole daemon with captured, random, large and cut conversations, and
// that no secret leaves it.
package prooftests

import (
	"testing"

	"perigee/internal/testing/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
