package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// A door stands before perigee and lets responses be asked over WebSockets only, so that a client
// that gets an answer has used one.
type door struct {
	url    string
	server *http.Server
	opened atomic.Int64
}

func newDoor(base string) (*door, error) {
	target, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as door: %w", err)
	}
	d := &door{url: "http://" + listener.Addr().String()}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		d.opened.Add(1)
		proxy.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "only sockets go through this door", http.StatusMethodNotAllowed)
	})
	d.server = &http.Server{Handler: mux}
	go func() { _ = d.server.Serve(listener) }()
	return d, nil
}

func (d *door) close() { _ = d.server.Close() }

// used reports whether a socket went through.
func (d *door) used() error {
	if d.opened.Load() == 0 {
		return errors.New("the client has opened no socket")
	}
	return nil
}
