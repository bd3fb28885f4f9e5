package oauth

import (
	"net"
	"net/url"
	"strconv"
	"testing"

	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

// A port that another program has on one of the two loopback addresses is not used: the browser may
// go there.
func TestLoginSharesItsPortWithNobody(t *testing.T) {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	_ = probe.Close()
	for _, theirs := range []string{"[::1]:0", "127.0.0.1:0"} {
		t.Run(theirs, func(t *testing.T) {
			other, err := net.Listen("tcp", theirs)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			port := other.Addr().(*net.TCPAddr).Port
			r := newRig(t, simulator.Script{})
			l, b, done := r.start(LoginOptions{Port: port})
			back, err := url.Parse(l.RedirectURI)
			if err != nil || back.Hostname() != "localhost" || back.Port() == strconv.Itoa(port) {
				t.Fatalf("the browser ends on %s (%v)", l.RedirectURI, err)
			}
			for _, host := range []string{"127.0.0.1", "[::1]"} {
				if status, _ := b.visit("http://" + host + ":" + back.Port() + callbackPath); status != 400 {
					t.Errorf("%s answers %d", host, status)
				}
			}
			if status, _ := b.visit(b.consent(l.URL).String()); status != 200 {
				t.Errorf("the browser got %d", status)
			}
			if got := await.Receive(t, done, "the end of the sign-in"); got.err != nil {
				t.Error(got.err)
			}
		})
	}
}
