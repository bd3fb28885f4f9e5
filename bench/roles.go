package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// roles are the parts that this program plays when it starts itself again. The name is its first
// argument; the proxy gets the provider's address as its second, the gateway the simulator's, and a
// provider behind TLS the files of its certificate and key.
var roles = map[string]func(args []string) error{
	roleProvider: playProvider,
	roleProxy:    playProxy,
	roleGateway:  playGateway,
}

const (
	roleProvider = "role:provider"
	roleProxy    = "role:proxy"
	roleGateway  = "role:gateway"
)

// playProvider answers like the Gemini API, and in the APIs of the wires, always the same. Behind TLS it wants HTTP/2, as the
// real one does.
func playProvider(args []string) error {
	mux := new(provider).mux()
	if len(args) != 2 {
		return serve(mux)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on https://%s\n", l.Addr())
	return newServer(onlyHTTP2(mux)).ServeTLS(l, args[0], args[1])
}

// onlyHTTP2 refuses calls in an older version, but for the question how many streams there are.
func onlyHTTP2(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 && r.URL.Path != heldPath {
			http.Error(w, "not HTTP/2", http.StatusHTTPVersionNotSupported)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// The models. One of them takes its time between two chunks, as real ones do, and one says no more
// after the first chunk; since nothing but the model's name passes every proxy unchanged, that is
// how a client asks for them.
const (
	quickModel = "gemini-3-flash"
	pacedModel = "gemini-3-flash-paced"
	quietModel = "gemini-3-flash-quiet"
	slowModel  = "gemini-3-flash-slow"
	longModel  = "gemini-3-flash-long"
	pace       = 2 * time.Millisecond
)

// A provider answers calls, and counts those that it holds quiet.
type provider struct{ held atomic.Int64 }

func (p *provider) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", p.provide)
	mux.HandleFunc("GET "+heldPath, p.writeHeld)
	for _, wr := range wires {
		mux.HandleFunc("POST "+wr.path, wr.provide)
	}
	return mux
}

// provide answers one call after it has read all of it.
func (p *provider) provide(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	if method == "generateContent" {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = w.Write(wholeAnswer)
		return
	}
	if model == quietModel { // counted before the client can know of it
		p.held.Add(1)
		defer p.held.Add(-1)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	if model == slowModel {
		provideSlowly(r.Context(), w, control)
		return
	}
	for i := 0; model == longModel && i < longChunks-chunkCount; i++ { // and then the answer as always
		if _, err := w.Write(answerChunks[i%(chunkCount-1)]); err != nil || control.Flush() != nil {
			return
		}
	}
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
		if model == quietModel {
			<-r.Context().Done()
			return
		}
	}
}

// playGateway is the Antigravity gateway in front of a simulator.
func playGateway(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants the simulator's address", roleGateway)
	}
	return serve(newGateway(args[0]))
}

// newGateway answers calls to models as the Antigravity gateway does, always the same, and leaves
// the rest to a simulator.
func newGateway(simulator string) http.Handler {
	var chunks [][]byte
	for _, chunk := range answerChunks {
		chunks = append(chunks, wrapped(chunk))
	}
	mux := http.NewServeMux()
	mux.Handle("/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: simulator}))
	mux.HandleFunc("POST /v1internal:streamGenerateContent", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range chunks {
			if _, err := w.Write(chunk); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	return mux
}

// provideSlowly answers with chunks that say when they were sent, at an even pace.
func provideSlowly(ctx context.Context, w io.Writer, control *http.ResponseController) {
	tick := time.NewTicker(slowPace)
	defer tick.Stop()
	for i := range slowChunks {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, err := w.Write(stampedChunk(i == slowChunks-1)); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

// heldPath is where a provider says how many calls it holds.
const heldPath = "/held"

func (p *provider) writeHeld(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, p.held.Load()) }

// playProxy is the measure of what any proxy in Go costs: net/http's own, sending on each byte as
// it comes.
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
		// Otherwise the server closes the body when the answer begins, and a provider as quick as
		// ours answers while the transport still looks for the body's end: one call in twenty would
		// break off.
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
	return newServer(h).Serve(l)
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
}
