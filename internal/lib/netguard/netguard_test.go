package netguard_test

import (
	"testing"

	"perigee/internal/lib/netguard"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "localhost.": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, ".": false, "localhost..": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "0.0.0.0": false, "::": false,
		"10.0.0.1": false, "127.0.0.1.": false, "2130706433": false, "[::1]": false,
	} {
		if got := netguard.IsLoopback(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}
