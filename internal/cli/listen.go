package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// ListenError adds advice to an error about the address to listen on. Other errors are unchanged,
// also those about a listener of another port.
func ListenError(err error, address string) error {
	refused, ok := errors.AsType[*net.OpError](err)
	if !ok || refused.Op != "listen" || refused.Net != "tcp" {
		return err
	}
	host, port, _ := net.SplitHostPort(address)
	if at, ok := refused.Addr.(*net.TCPAddr); ok {
		if number, unknown := net.LookupPort("tcp", port); unknown == nil && number != at.Port {
			return err
		}
	}
	_, noName := errors.AsType[*net.DNSError](err)
	reason := fmt.Sprintf("%v; choose another address with --listen", refused.Err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		reason = fmt.Sprintf("another program has port %s; choose another with --listen, or port 0 for a free one", port)
	case errors.Is(err, syscall.EADDRNOTAVAIL), noName:
		reason = fmt.Sprintf("%s is not an address of this machine; use 127.0.0.1:%s, or one that it has", host, port)
	case errors.Is(err, fs.ErrPermission):
		reason = fmt.Sprintf("you may not use port %s; choose one from 1024 on with --listen", port)
	}
	return fmt.Errorf("cannot listen on %s: %s", address, reason)
}
