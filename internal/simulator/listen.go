package simulator

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listen serves a simulator on a free port of 127.0.0.1, until stop is called.
func Listen(opts Options) (url string, stop func(), err error) {
	sim, err := New(opts)
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, sim.Close())
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String(), func() {
		_ = sim.Close()
		_ = server.Close()
		serving.Wait()
	}, nil
}
