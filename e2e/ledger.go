package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A ledger stands between replicas and their provider, and remembers which refresh tokens were used
// and which signatures went in which direction.
type ledger struct {
	url    string
	server *http.Server
	think  atomic.Bool // let every third call wait, as a model that thinks does
	calls  atomic.Int64

	mu        sync.Mutex
	refreshes map[string]int // by refresh token
	given     []string       // signatures in answers
	returned  map[string]bool
}

func newLedger(provider string) (*ledger, error) {
	target, err := url.Parse(provider)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as ledger: %w", err)
	}
	l := &ledger{url: "http://" + listener.Addr().String(), refreshes: map[string]int{}, returned: map[string]bool{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // replicas are killed here
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = &overheard{ReadCloser: resp.Body, ledger: l}
			return nil
		},
	}
	l.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Del("Accept-Encoding") // so that what comes back can be read
		l.note(body)
		if l.think.Load() && strings.Contains(r.URL.Path, "GenerateContent") && l.calls.Add(1)%3 == 0 {
			_ = pause(r.Context(), 700*time.Millisecond)
		}
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = l.server.Serve(listener) }()
	return l, nil
}

func (l *ledger) close() { _ = l.server.Close() }

var signature = regexp.MustCompile(`"thoughtSignature":\s*"([^"]+)"`)

func (l *ledger) note(body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("grant_type") == "refresh_token" {
		l.refreshes[form.Get("refresh_token")]++
	}
	for _, found := range signature.FindAllSubmatch(body, -1) {
		l.returned[string(found[1])] = true
	}
}

// overheard is an answer on its way.
type overheard struct {
	io.ReadCloser
	ledger *ledger
	said   bytes.Buffer
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.said.Write(p[:n])
	if err != nil {
		o.ledger.mu.Lock()
		for _, found := range signature.FindAllSubmatch(o.said.Bytes(), -1) {
			o.ledger.given = append(o.ledger.given, string(found[1]))
		}
		o.ledger.mu.Unlock()
		o.said.Reset()
	}
	return n, err
}

// usedTwice says how many refresh tokens there were, and is an error when one was used again after
// it was replaced.
func (l *ledger) usedTwice() (refreshes int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.refreshes {
		refreshes += times
		if times > 1 {
			err = fmt.Errorf("a refresh token was used %d times", times)
		}
	}
	return refreshes, err
}

// signatureReturned reports whether a signature that was given came back.
func (l *ledger) signatureReturned() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.given) == 0 {
		return errors.New("the provider gave no signature")
	}
	for _, s := range l.given {
		if l.returned[s] {
			return nil
		}
	}
	return fmt.Errorf("none of the %d signatures that the provider gave came back", len(l.given))
}
