package measure

import "testing"

func TestBuildReasonIsWhatMatters(t *testing.T) {
	for _, test := range []struct{ out, want string }{
		{"go: downloading a/b v1.0.0\ngo: a/b@v1.0.0: reading https://proxy.test/a/b/@v/v1.0.0.mod: 403 Forbidden\n\tserver response: Not available.\n",
			"a/b@v1.0.0: 403 Forbidden server response: Not available."},
		{"# a/b/ui\nmain.go:67:12: pattern all:ui: no matching files found\n", "main.go:67:12: pattern all:ui: no matching files found"},
		{"go: downloading a/b v1.0.0\n", ""},
		{"", ""},
	} {
		if got := buildReason(test.out); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestSizeField(t *testing.T) {
	text := "Name:\tperigee\nVmHWM:\t   10240 kB\nVmRSS:\t    8000 kB\n"
	if n, err := sizeField(text, "VmRSS"); n != 8000<<10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := sizeField(text, "VmSwap"); err == nil {
		t.Error("no error for a field that is not there")
	}
}
