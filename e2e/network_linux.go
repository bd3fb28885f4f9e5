package main

import (
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// listenIn listens in the network namespace at a path, for a process that stays where it is.
func listenIn(path, address string) (listener net.Listener, err error) {
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
			listener, err = net.Listen("tcp", address)
		}
	}()
	<-done
	return listener, err
}
