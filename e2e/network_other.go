//go:build !linux

package main

import (
	"errors"
	"net"
)

func listenIn(string, string) (net.Listener, error) {
	return nil, errors.New("there are no network namespaces on this system")
}
