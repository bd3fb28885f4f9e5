package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// cannotListen gives an error about an address that nobody can listen on the advice that fits it. Other errors stay as they are.
func cannotListen(err error, address string) error {
	refused, ok := errors.AsType[*net.OpError](err)
	if !ok || refused.Op != "listen" || refused.Net != "tcp" {
		return err
	}
	host, port, _ := net.SplitHostPort(address)
	switch _, noName := errors.AsType[*net.DNSError](err); {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: another program has port %s; choose another with --listen, or port 0 for a free one", address, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL), noName:
		return fmt.Errorf("cannot listen on %s: %s is no address of this machine; use 127.0.0.1:%s, or one that it has", address, host, port)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot listen on %s: you may not use port %s; choose one from 1024 on with --listen", address, port)
	}
	return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", address, refused.Err)
}
