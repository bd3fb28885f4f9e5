package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The versions of HTTP, by the names that stand in the report, and as programs are told.
const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2.0"
)

var shortVersion = map[string]string{http1: "1.1", http2: "2"}

// versionLimit is how long a scenario may take with one version of HTTP.
const versionLimit = 3 * time.Minute

// eachVersion tries the scenarios of a client, which are versions of HTTP.
func eachVersion(try func(ctx context.Context, s *stage, version string) error) func(context.Context, *stage, client, *report) {
	return func(ctx context.Context, s *stage, c client, r *report) {
		for _, version := range c.scenarios {
			limited, cancel := context.WithTimeout(ctx, versionLimit)
			r.add(c, version, try(limited, s, version))
			cancel()
		}
	}
}

// The name of the cloud that language servers call, and a name that is not intercepted. The
// certificate of a tlsCloud has both.
const (
	cloudHost = "daily-cloudcode-pa.googleapis.com"
	otherHost = "other.example"
)

// A tlsCloud is a simulator behind TLS, with one version of HTTP and a certificate that only
// upstream_ca vouches for. It keeps what it was sent. An answer to a prompt with "hold TOKEN" stops
// after its first event until the token is released.
type tlsCloud struct {
	simulator   string // without TLS
	certificate string // file
	pair        tls.Certificate
	version     string // of HTTP
	server      *http.Server

	mu       sync.Mutex
	requests []cloudRequest
	gates    map[string]chan struct{}
}

// A cloudRequest is a request as the cloud got it.
type cloudRequest struct {
	version, host, method string
	body                  []byte
	over                  <-chan struct{} // closed when the answer has ended or its reader is gone
}

// newTLSCloud starts a simulator of its own for the cloud, so that the list of its calls has no
// other calls. serve has it answer.
func newTLSCloud(ctx context.Context, s *stage, name, version string) (*tlsCloud, error) {
	simulator, err := s.start(ctx, name+"-simulator", s.binary, "simulate", "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(simulator)
	if err != nil {
		return nil, err
	}
	c := &tlsCloud{simulator: simulator, certificate: filepath.Join(s.dir, name+".pem"), version: version, gates: map[string]chan struct{}{}}
	if c.pair, err = selfSigned(c.certificate, "127.0.0.1", "localhost", cloudHost, otherHost); err != nil {
		return nil, err
	}
	quiet := log.New(io.Discard, "", 0) // of connections that were cut
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: hold, FlushInterval: -1, ErrorLog: quiet,
	}
	c.server = &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{c.pair}},
		ErrorLog:  quiet,
		Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r, err := c.note(r); err == nil {
				forward.ServeHTTP(w, r)
			}
		}),
	}
	c.server.Protocols.SetHTTP1(version == http1)
	c.server.Protocols.SetHTTP2(version == http2)
	return c, nil
}

func (c *tlsCloud) close() { _ = c.server.Close() }

// serve has the cloud answer, until it is closed.
func (c *tlsCloud) serve(listener net.Listener) (url string) {
	go func() { _ = c.server.ServeTLS(listener, "", "") }()
	return "https://" + listener.Addr().String()
}

// A gateKey is the key of the gate in the context of a request whose answer is held.
type gateKey struct{}

var holdToken = regexp.MustCompile(`hold (tok\w+)`)

// note keeps a request.
func (c *tlsCloud) note(r *http.Request) (*http.Request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, method, _ := strings.Cut(r.URL.Path, ":")
	c.mu.Lock()
	c.requests = append(c.requests, cloudRequest{version: r.Proto, host: r.Host, method: method, body: body, over: r.Context().Done()})
	c.mu.Unlock()
	if token := holdToken.FindSubmatch(body); token != nil {
		r = r.WithContext(context.WithValue(r.Context(), gateKey{}, c.gate(string(token[1]))))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, nil
}

// gate is closed by the scenario that holds an answer.
func (c *tlsCloud) gate(token string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gates[token] == nil {
		c.gates[token] = make(chan struct{})
	}
	return c.gates[token]
}

// hold stops an answer after its first event if its request has a gate.
func hold(r *http.Response) error {
	if gate, ok := r.Request.Context().Value(gateKey{}).(chan struct{}); ok {
		r.Body = &heldBody{ReadCloser: r.Body, lines: bufio.NewReader(r.Body), ctx: r.Request.Context(), gate: gate}
	}
	return nil
}

type heldBody struct {
	io.ReadCloser
	lines *bufio.Reader
	ctx   context.Context
	gate  chan struct{}
	line  []byte // not read yet
	first bool   // the first event was read
}

func (b *heldBody) Read(p []byte) (int, error) {
	if len(b.line) == 0 {
		if b.first {
			select {
			case <-b.gate:
			case <-b.ctx.Done():
				return 0, b.ctx.Err()
			}
		}
		var err error
		if b.line, err = b.lines.ReadBytes('\n'); err != nil && len(b.line) == 0 {
			return 0, err
		}
		b.first = b.first || len(bytes.TrimSpace(b.line)) == 0
	}
	n := copy(p, b.line)
	b.line = b.line[n:]
	return n, nil
}

// A carriedCall is a call of streamGenerateContent as the cloud reads it.
type carriedCall struct {
	cloudRequest
	Project     string `json:"project"`
	RequestID   string `json:"requestId"`
	RequestType string `json:"requestType"`
	Request     struct {
		System json.RawMessage `json:"systemInstruction"`
		Tools  []struct {
			Functions []struct{ Name string } `json:"functionDeclarations"`
		}
		Config struct{ Temperature float64 } `json:"generationConfig"`
	} `json:"request"`
}

// calls returns the calls whose answer goes to a client, not those that a language server makes for
// itself.
func (c *tlsCloud) calls() (calls []carriedCall, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		call := carriedCall{cloudRequest: r}
		if r.method != "streamGenerateContent" {
			continue
		}
		if err := json.Unmarshal(r.body, &call); err != nil {
			return nil, fmt.Errorf("the cloud was sent %q: %w", lastBytes(string(r.body), 500), err)
		}
		if call.RequestType == "agent" {
			calls = append(calls, call)
		}
	}
	return calls, nil
}

// check holds that each request came over the right version of HTTP and for the right host, and
// that the simulator refused none.
func (c *tlsCloud) check(ctx context.Context, host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if r.version != c.version || r.host != host {
			return fmt.Errorf("%s came over %s for %s, want %s for %s", r.method, r.version, r.host, c.version, host)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.simulator+"/simulator/calls", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var list struct {
		Calls []struct {
			Path, Account, Rule string
			Status              int
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return err
	}
	answered := 0
	for _, call := range list.Calls {
		if !strings.HasSuffix(call.Path, ":streamGenerateContent") {
			continue
		}
		if call.Rule != "" || call.Account == "" {
			return fmt.Errorf("the simulator has refused a call: %+v", call)
		}
		answered++
	}
	if answered == 0 {
		return fmt.Errorf("the simulator was asked nothing; it lists %+v", list.Calls)
	}
	return nil
}
