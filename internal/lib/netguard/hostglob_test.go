package netguard

import (
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	list, err := ParseHosts([]string{"cloudcode-pa.googleapis.com", "*-cloudcode-pa.sandbox.googleapis.com", "*.Example.org", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"cloudcode-pa.googleapis.com": true, "CloudCode-PA.googleapis.com.": true, "daily-cloudcode-pa.googleapis.com": false,
		"daily-cloudcode-pa.sandbox.googleapis.com": true, "a.daily-cloudcode-pa.sandbox.googleapis.com": false,
		"www.example.org": true, "example.org": false, "a.b.example.org": false, "www.example.org.evil.test": false,
		"localhost": true, "127.0.0.1": false, "": false, ".": false, ".example.org": false, "cloudcode-pa.googleapis.com:443": false,
	} {
		if got := list.Match(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	if (HostList{}).Match("example.org") {
		t.Error("the empty list matches")
	}
	want := []string{"cloudcode-pa.googleapis.com", "example.org", "localhost", "sandbox.googleapis.com"}
	if got := list.Constraints(); !slices.Equal(got, want) {
		t.Errorf("constraints %q", got)
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for pattern, reason := range map[string]string{
		"*": "too wide", "*.com": "too wide", "api.*": "too wide", "a.*.com": "too wide", "*.*.com": "too wide",
		"127.0.0.1": "IP address", "::1": "IP address", "[::1]": "IP address", "example.org:443": "leave out the scheme, the port",
		"https://example.org": "leave out the scheme, the port", "example.org/path": "not a host name", "a..b": "not a host name", "": "1 to 253", ".": "1 to 253", "a b.example.org": "not a host name",
		strings.Repeat("a", 64) + ".example.org": "not a host name", strings.Repeat("a.", 130) + "org": "1 to 253",
	} {
		if _, err := ParseHosts([]string{pattern}); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
