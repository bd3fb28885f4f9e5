package wire

import (
	"context"
	"errors"
	"net"
	"net/http"
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
	for want, err := range map[string]error{
		"upstream u: connection lost":                &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: syscall.ECONNRESET},
		"upstream u cannot be reached: server error": &url.Error{Op: "Post", URL: "x", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: syscall.ECONNREFUSED}},
	} {
		e := TransportError(t.Context(), "u", "url", err)
		if e.Public != want || !strings.Contains(e.Message, "127.0.0.1:8401") || !errors.Is(e, err) {
			t.Errorf("got %q, for the record %q", e.Public, e.Message)
		}
	}
}
