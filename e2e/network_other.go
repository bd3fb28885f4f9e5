//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
)

var errNoNamespaces = errors.New("there are no network namespaces on this system")

func listenIn(string, string) (net.Listener, error) { return nil, errNoNamespaces }

func dialIn(context.Context, string, string) (net.Conn, error) { return nil, errNoNamespaces }
