package release

import "testing"

// Windows has no umask.
func umask(*testing.T, int) {}
