package wire

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"perigee"
)

func TestTroubleNamesTheCause(t *testing.T) {
	refused := errors.New("connection refused")
	for _, c := range []struct {
		name   string
		cause  error // why the context was canceled; nil means it was not
		err    error
		class  perigee.Class
		status int
		want   string
	}{
		{"no first byte", ErrFirstByte, context.Canceled, perigee.ClassUnavailable, http.StatusGatewayTimeout,
			"upstream u timed out: no answer within limits.first_byte; try again, or allow more time"},
		{"silence", ErrIdle, context.Canceled, perigee.ClassUnavailable, http.StatusGatewayTimeout,
			"upstream u timed out: no sign of life within limits.idle; try again, or allow more time"},
		{"nobody waits", context.Canceled, context.Canceled, perigee.ClassCanceled, 0, "the call was canceled"},
		{"the network", nil, refused, perigee.ClassUnavailable, 0,
			"upstream u cannot be reached or broke off: connection refused; check its url and the network, or try again"},
		{"no descriptor", nil, &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "socket", Err: syscall.EMFILE}}, perigee.ClassCapacity, 0,
			"no connection to upstream u: perigee has no file descriptor left (dial: socket: too many open files); " +
				"raise ulimit -n or LimitNOFILE, or lower limits.connections"},
		{"the network, with an address", nil, &url.Error{Op: "Post", URL: "https://provider.example/?secret", Err: refused}, perigee.ClassUnavailable, 0,
			"upstream u cannot be reached or broke off: connection refused; check its url and the network, or try again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cause != nil {
				cancel(c.cause)
			}
			e := TransportError(ctx, "u", "url", c.err)
			if e.Class != c.class || e.Status != c.status || e.Error() != c.want || !errors.Is(e, c.err) {
				t.Errorf("%s %d %v", e.Class, e.Status, e)
			}
		})
	}
}

// What clients see of a broken connection has no addresses, and words that agents know as
// transient.
func TestClientsSeeNoAddresses(t *testing.T) {
	there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8401}
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 60096}
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "x", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: err}}
	}
	for want, err := range map[string]error{
		"upstream u: connection lost":                                                              &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.ECONNRESET},
		"upstream u cannot be reached: connection refused":                                         dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"upstream u cannot be reached: connection error (no route to its host)":                    dial(syscall.EHOSTUNREACH),
		"upstream u cannot be reached: connection error (timed out)":                               dial(os.ErrDeadlineExceeded),
		"upstream u cannot be reached: connection error (unknown host)":                            dial(&net.DNSError{Err: "no such host", Name: "private", IsNotFound: true}),
		"upstream u cannot be reached: connection error (the name of its host cannot be resolved)": dial(&net.DNSError{Err: "server misbehaving", Name: "private", Server: "10.0.0.1:53"}),
		"upstream u cannot be reached: connection error":                                           dial(syscall.EACCES),
	} {
		e := TransportError(t.Context(), "u", "url", err)
		step := "check url of upstream u, and that its server is running; perigee's log has the details"
		if strings.HasSuffix(want, "lost") {
			step = ""
		}
		if e.Public != want || e.PublicHint != step || !strings.Contains(e.Message, "127.0.0.1:8401") || !errors.Is(e, err) {
			t.Errorf("got %q, for the record %q", e.Public, e.Message)
		}
	}
}

// An upstream with a wrong scheme, or with a certificate of an unknown authority, cannot be reached.
func TestClientsSeeFailuresOfTLS(t *testing.T) {
	plain, private := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer plain.Close()
	defer private.Close()
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	for target, want := range map[string]string{
		"https://" + plain.Listener.Addr().String(): "upstream u cannot be reached: connection error (its server does not speak TLS)",
		private.URL: "upstream u cannot be reached: connection error (the certificate of its server is not trusted)",
	} {
		client := NewClient(nil)
		resp, err := client.Get(target)
		if err == nil {
			resp.Body.Close()
			t.Fatal("answered")
		}
		if e := TransportError(t.Context(), "u", "url", err); e.Public != want || e.PublicHint == "" || e.Class != perigee.ClassUnavailable || NeverConnected(err) {
			t.Errorf("got %q for %v", e.Public, err)
		}
		client.CloseIdleConnections()
	}
}
