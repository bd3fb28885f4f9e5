package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"
)

// roles are the parts that this program plays when it starts itself again. The name is its first argument; the
// proxy gets the provider's address as its second.
var roles = map[string]func(args []string) error{
	roleProvider: playProvider,
	roleProxy:    playProxy,
}

const (
	roleProvider = "role:provider"
	roleProxy    = "role:proxy"
)

// playProvider answers like the Gemini API, always the same.
func playProvider([]string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", provide)
	return serve(mux)
}

// The models. Only one of them takes its time between two chunks, as real ones do; since nothing but the model's
// name passes every proxy unchanged, that is how a client asks for it.
const (
	quickModel = "gemini-3-flash"
	pacedModel = "gemini-3-flash-paced"
	pace       = 2 * time.Millisecond
)

// provide answers one call after it has read all of it.
func provide(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	if method == "generateContent" {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write(wholeAnswer())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for i, chunk := range answerChunks {
		if i > 0 && model == pacedModel {
			select {
			case <-time.After(pace):
			case <-r.Context().Done():
				return
			}
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

// playProxy is the measure of what any proxy in Go costs: net/http's own, sending on each byte as it comes.
func playProxy(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants the provider's address", roleProxy)
	}
	target := &url.URL{Scheme: "http", Host: args[0]}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 256 // two, the default, would dial all the time
	transport.DisableCompression = true
	reverse := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Otherwise the server closes the body when the answer begins, and a provider as quick as ours answers
		// while the transport still looks for the body's end: one call in twenty would break off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		reverse.ServeHTTP(w, r)
	}))
}

// serve says where it listens, in perigee's words, and serves until it is ended.
func serve(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	return (&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
