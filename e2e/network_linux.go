package main

import (
	"context"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// listenIn listens in the network namespace at a path, for a process that stays where it is.
func listenIn(path, address string) (listener net.Listener, err error) {
	if errEnter := runIn(path, func() { listener, err = net.Listen("tcp", address) }); errEnter != nil {
		return nil, errEnter
	}
	return listener, err
}

// dialIn connects in the network namespace at a path, to an IP address.
func dialIn(ctx context.Context, path, address string) (conn net.Conn, err error) {
	if errEnter := runIn(path, func() { conn, err = new(net.Dialer).DialContext(ctx, "tcp", address) }); errEnter != nil {
		return nil, errEnter
	}
	return conn, err
}

// runIn calls a function in the network namespace at a path. What it does must not go to another
// goroutine.
func runIn(path string, do func()) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread, which is in the other namespace, ends with the goroutine
		var namespace *os.File
		if namespace, err = os.Open(path); err != nil {
			return
		}
		defer namespace.Close()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err == nil {
			do()
		}
	}()
	<-done
	return err
}
