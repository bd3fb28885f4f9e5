package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A shakyProvider stands between perigee and the simulator. Words in the prompt tell it to break
// streams off after three events ("cut every TOKEN", "cut first TOKEN": only the first request with
// tools) or to be silent for a while before it answers the first time ("think long TOKEN").
type shakyProvider struct {
	url    string
	server *http.Server
	target string

	mu  sync.Mutex
	met map[string]bool // "cut first" and "think long", with their tokens
}

// silence is longer than perigee's keep-alive interval.
const silence = 20 * time.Second

var (
	cutEvery = regexp.MustCompile(`cut every tok\w+`)
	cutFirst = regexp.MustCompile(`cut first tok\w+`)
	thinking = regexp.MustCompile(`think long tok\w+`)
)

func newShakyProvider(target string) (*shakyProvider, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as shaky provider: %w", err)
	}
	p := &shakyProvider{url: "http://" + listener.Addr().String(), target: target, met: map[string]bool{}}
	p.server = &http.Server{Handler: p}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *shakyProvider) close() { _ = p.server.Close() }

func (p *shakyProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	cuts := p.cuts(body)
	if p.first(thinking.Find(body)) && pause(r.Context(), silence) != nil {
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Accept-Encoding")
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	lines := bufio.NewReader(resp.Body)
	for events := 0; ; {
		line, err := lines.ReadString('\n')
		if _, failed := io.WriteString(w, line); failed != nil || err != nil {
			return
		}
		if strings.TrimSpace(line) == "" {
			_ = http.NewResponseController(w).Flush()
			if events++; cuts && events == 3 {
				panic(http.ErrAbortHandler) // the connection is closed in the middle of the answer
			}
		}
	}
}

// cuts reports whether the answer to a request is to be broken off.
func (p *shakyProvider) cuts(body []byte) bool {
	return cutEvery.Match(body) || bytes.Contains(body, []byte("functionDeclarations")) && p.first(cutFirst.Find(body))
}

// first reports whether words are met for the first time.
func (p *shakyProvider) first(words []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if words == nil || p.met[string(words)] {
		return false
	}
	p.met[string(words)] = true
	return true
}

// wasCut reports whether a stream of this token was broken off.
func (p *shakyProvider) wasCut(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met["cut first "+token]
}
