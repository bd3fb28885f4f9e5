//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The paths of the server.
const (
	jsonPath   = "/json"   // POST: 2 KB in, 2 KB out
	eventsPath = "/events" // GET ?n=&pace=: events that say when they were sent
	quietPath  = "/quiet"  // GET: one event, and then nothing until the client leaves
	heldPath   = "/held"   // GET: how many of those are open
)

// document is what goes both ways.
var document = []byte(`{"text":"` + strings.Repeat("0123456789abcde ", 127) + `"}`)

// playServer is the server that everything is in front of. It speaks only the given version of
// HTTP, so that a proxy which changes the version fails instead of being measured.
func playServer(args []string) error {
	protocol, certFile, keyFile := args[0], args[1], args[2]
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return err
	}
	var held atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+jsonPath, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(document)))
		_, _ = w.Write(document)
	})
	mux.HandleFunc("GET "+eventsPath, sendEvents)
	mux.HandleFunc("GET "+quietPath, func(w http.ResponseWriter, r *http.Request) {
		held.Add(1)
		defer held.Add(-1)
		_ = sendEvent(w)
		<-r.Context().Done()
	})
	mux.HandleFunc("GET "+heldPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, held.Load()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(protocol == http1)
	protocols.SetHTTP2(protocol == http2)
	server := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	fmt.Fprintf(os.Stderr, "listening on https://%s\n", l.Addr())
	return server.ServeTLS(l, "", "")
}

func sendEvents(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	pace, _ := time.ParseDuration(r.FormValue("pace"))
	for i := range n {
		if i > 0 && pace > 0 {
			select {
			case <-time.After(pace):
			case <-r.Context().Done():
				return
			}
		}
		if sendEvent(w) != nil {
			return
		}
	}
}

const eventPrefix = "data: "

func sendEvent(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, eventPrefix+"%d %s\n\n", time.Now().UnixNano(), document[:200])
	return http.NewResponseController(w).Flush()
}

// sentAt reads the time from the first line of an event.
func sentAt(line []byte) (time.Time, error) {
	stamp, _, _ := strings.Cut(strings.TrimPrefix(string(line), eventPrefix), " ")
	ns, err := strconv.ParseInt(stamp, 10, 64)
	return time.Unix(0, ns), err
}
