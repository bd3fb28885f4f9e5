package supervisor

import (
	"strings"
	"testing"

	"perigee"
)

func TestOutputFindsPorts(t *testing.T) {
	for text, want := range map[string]Endpoint{
		"I0101 server.go:9] Language server listening on random port at 40753 for HTTPS (gRPC)\n": {HTTPS: 40753},
		"listening on fixed port at 40754 for HTTP\n":                                             {HTTP: 40754},
		"Listening On RANDOM port at 1 for https\n":                                               {HTTPS: 1},
		"listening on random port at 40755 for LSP\n":                                             {},
		"listening on random port at 99999 for HTTP\n":                                            {},
		"listening on random port at 0 for HTTP\n":                                                {},
		"listening on random port at 7 for HTTP":                                                  {}, // the line has not ended
		strings.Repeat("x", 10_000) + "\nlistening on a port at 8 for HTTP\n":                     {HTTP: 8},
	} {
		for _, step := range []int{1, 7, len(text)} {
			var got Endpoint
			o := &output{found: func(e Endpoint) { got = e }}
			for rest := text; rest != ""; {
				n := min(step, len(rest))
				_, _ = o.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got != want {
				t.Errorf("%.100q by %d: got %+v, want %+v", text, step, got, want)
			}
		}
	}
}

func TestOutputKeepsLittle(t *testing.T) {
	o := &output{}
	for range 100 {
		_, _ = o.Write([]byte(strings.Repeat("noise", 10_000)))
	}
	if cap(o.line) > 2*lineLimit {
		t.Errorf("a line of %d bytes is kept", cap(o.line))
	}
}

func TestOutputDescribesTheEnd(t *testing.T) {
	for _, c := range []struct {
		text   string
		failed bool
		want   string
	}{
		{"fine\n", false, ""},
		{"fine\n\n", true, "fine"},
		{"one\nunfinished", true, "unfinished"},
		{"x\npanic: first\ngoroutine 1\npanic: second\n", true, "panic: first"},
		{"http: panic serving 127.0.0.1\nfine\n", false, "http: panic serving 127.0.0.1"},
		{"unexpected fault address 0x0\n", true, "unexpected fault address 0x0"},
		{"", true, ""},
	} {
		o := &output{}
		_, _ = o.Write([]byte(c.text))
		if got := o.detail(c.failed); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	o := &output{}
	_, _ = o.Write([]byte("panic: " + strings.Repeat("long", 1000) + "\n"))
	if got := clipped(o.detail(true)); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestNoPartOfASecretIsShown has secrets where texts are cut.
func TestNoPartOfASecretIsShown(t *testing.T) {
	const secret = "no-prefix-0123456789-0123456789-0123456789"
	for _, at := range []int{0, 280, 290, lineLimit - 10, lineLimit} {
		s := New(Options{})
		s.HideToken(perigee.NewSecret(secret))
		s.HideToken(perigee.NewSecret("the next token"))
		var printed string
		o := &output{print: func(line string) { printed += s.redacted(line) }}
		_, _ = o.Write([]byte("panic: " + strings.Repeat("x", max(at-8, 0)) + " " + secret + "\nlast\n"))
		for what, text := range map[string]string{"log": printed, "reason": clipped(s.redacted(o.detail(true)))} {
			if strings.Contains(text, "no-prefix") {
				t.Errorf("at %d, the %s has %.50q", at, what, text[strings.Index(text, "no-prefix"):])
			}
		}
	}
}
