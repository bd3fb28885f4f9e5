package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"perigee"
)

// TransportError returns the error of a call that failed without an answer of the provider: a
// time-out, a caller that left, or a lost connection. setting is the configuration key of the
// provider's address.
func TransportError(ctx context.Context, upstream, setting string, err error) *perigee.Error {
	e := &perigee.Error{Class: perigee.ClassUnavailable, Cause: err}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrFirstByte), errors.Is(cause, ErrIdle):
		e.Status = http.StatusGatewayTimeout
		e.Message = fmt.Sprintf("upstream %s timed out: %v", upstream, cause)
		e.Hint = "try again, or allow more time"
	case cause != nil:
		e.Class = perigee.ClassCanceled
		e.Message = "the call was canceled"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Class = perigee.ClassCapacity
		e.Message = fmt.Sprintf("no connection to upstream %s: perigee has no file descriptor left (%v)", upstream, err)
		e.Hint = "raise ulimit -n or LimitNOFILE, or lower limits.connections"
		e.Public = fmt.Sprintf("upstream %s: perigee is overloaded", upstream)
	default:
		if address, ok := errors.AsType[*url.Error](err); ok {
			err = address.Err // net/http wraps it with the address; the upstream's name is clearer
		}
		e.Message = fmt.Sprintf("upstream %s cannot be reached or broke off: %v", upstream, err)
		e.Hint = fmt.Sprintf("check its %s and the network, or try again", setting)
		// Go's own messages name addresses and ports of this machine, and some agents retry only
		// messages that they recognise as transient.
		e.Public = fmt.Sprintf("upstream %s: connection lost", upstream)
		switch never, reason := NeverConnected(err), reasonOf(err); {
		case isProxy(err):
			e.Public = fmt.Sprintf("upstream %s: its proxy does not connect: server error", upstream)
			e.Hint = "check the proxy setting of the upstream, or HTTPS_PROXY, and the proxy's own log"
			if never {
				e.Public = fmt.Sprintf("upstream %s: its proxy cannot be reached: %s", upstream, cmp.Or(reason, "connection error"))
				e.Hint = "start the proxy, or correct the proxy setting of the upstream, or HTTPS_PROXY"
				e.PublicHint = e.Hint
			}
		case never || reason != "":
			e.Public = fmt.Sprintf("upstream %s cannot be reached: %s", upstream, cmp.Or(reason, "connection error"))
			e.PublicHint = fmt.Sprintf("check %s of upstream %s, and that its server is running; perigee's log has the details", setting, upstream)
		}
	}
	return e
}

// reasonOf returns why there is no connection, for clients: without names and addresses, and in words
// that agents retry. It is empty if the reason is unknown, or the connection was lost later.
func reasonOf(err error) string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	name, unresolved := errors.AsType[*net.DNSError](err)
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case untrusted:
		return "connection error (the certificate of its server is not trusted)"
	case plain, errors.Is(err, http.ErrSchemeMismatch):
		return "connection error (its server does not speak TLS)"
	case !NeverConnected(err):
		return ""
	case unresolved && name.IsNotFound:
		return "connection error (unknown host)"
	case unresolved:
		return "connection error (the name of its host cannot be resolved)"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, wsaRefused):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "connection error (no route to its host)"
	case errors.Is(err, os.ErrDeadlineExceeded), ok && timeout.Timeout():
		return "connection error (timed out)"
	}
	return ""
}

// wsaRefused is WSAECONNREFUSED of Windows. No other system has this number.
const wsaRefused = syscall.Errno(10061)

// NeverConnected reports whether a request failed because no connection was made, neither to the
// provider nor to a proxy.
func NeverConnected(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if op, ok := err.(*net.OpError); ok && op.Op == "dial" {
			return true
		}
	}
	return false
}

// isProxy reports whether a request failed at a proxy, before anything was sent to the provider.
// Net/http has that operation for everything between dialing a proxy and the answer of a SOCKS5
// proxy.
func isProxy(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "proxyconnect" || errors.Is(err, errProxyRefused)
}
