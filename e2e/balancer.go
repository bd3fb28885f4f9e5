package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A balancer stands before replicas and takes them in turn. It does what balancers do: when a
// replica cannot be reached, or is gone before the first byte of its answer, the next one is asked;
// an answer that has begun is passed on as it comes.
type balancer struct {
	url      string
	replicas []string
	server   *http.Server
	client   *http.Transport
	turn     atomic.Int64
	moved    atomic.Int64 // requests that another replica had to answer
	sent     atomic.Int64 // of these, those that the first one had got already
}

func newBalancer(replicas ...string) (*balancer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen as balancer: %w", err)
	}
	b := &balancer{
		url: "http://" + listener.Addr().String(), replicas: replicas,
		client: &http.Transport{MaxIdleConnsPerHost: 100, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext},
	}
	b.server = &http.Server{Handler: b}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

func (b *balancer) close() {
	_ = b.server.Close()
	b.client.CloseIdleConnections()
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	first := int(b.turn.Add(1))
	for try := range b.replicas {
		resp, err := b.ask(r, body, b.replicas[(first+try)%len(b.replicas)])
		if err != nil {
			b.moved.Add(1)
			if e, ok := errors.AsType[*net.OpError](err); !ok || e.Op != "dial" {
				b.sent.Add(1)
			}
			continue // not a byte of an answer has come
		}
		b.pass(w, resp)
		return
	}
	http.Error(w, "no replica answers", http.StatusBadGateway)
}

func (b *balancer) ask(r *http.Request, body []byte, replica string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, replica+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = r.Header.Clone()
	return b.client.RoundTrip(req)
}

// pass hands an answer on piece by piece. One that breaks off breaks off for the client, too.
func (b *balancer) pass(w http.ResponseWriter, resp *http.Response) {
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.Header().Set("X-Answered-By", resp.Request.URL.Host)
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w)
	buffer := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			_, _ = w.Write(buffer[:n])
			_ = flush.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}
