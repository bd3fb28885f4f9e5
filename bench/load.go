package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// askLimit is how long one call may take. A call that takes longer is a bug, not a measurement.
const askLimit = 30 * time.Second

// turnCalls is how many calls a client makes in one turn at most.
const turnCalls = 50_000

// A client asks the same thing again and again on one connection. It writes a request that was made
// beforehand and has no goroutines, because what it spends is noise in what it measures.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	dialect *dialect
	request []byte
	answer  []byte // of the last call
}

// A sample is one call: until the first whole event with text, and until the end.
type sample struct{ first, total time.Duration }

// A question is what a client asks: a model, in a dialect, with a body.
type question struct {
	dialect *dialect
	model   string
	body    []byte
	key     string // sent along, where a gateway wants one
}

// newQuestion is the question that an agent would ask with a body of the given size.
func newQuestion(d *dialect, model string, size int) question {
	return question{dialect: d, model: model, body: agentBody(d, model, size)}
}

func dial(ctx context.Context, addr string, q question) (*client, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, reader: bufio.NewReader(conn), dialect: q.dialect,
		request: q.request(addr), answer: make([]byte, 0, 32<<10),
	}, nil
}

// request is the question as it goes over the connection.
func (q question) request(addr string) []byte {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n"+
		"User-Agent: bench/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", q.dialect.url(q.model), addr, len(q.body))
	if q.key != "" {
		head += "Authorization: Bearer " + q.key + "\r\n"
	}
	return append([]byte(head+"\r\n"), q.body...)
}

// ask makes one call and insists on the right answer: a wrong one may be quick.
func (c *client) ask() (s sample, err error) {
	start := time.Now()
	if err := c.conn.SetDeadline(start.Add(askLimit)); err != nil {
		return s, err
	}
	_, writeErr := c.conn.Write(c.request)
	// A request that is refused early has an answer, which says more than the broken connection.
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return s, errors.Join(writeErr, err)
	}
	defer resp.Body.Close()
	c.answer = c.answer[:0]
	for err == nil {
		var n int
		c.answer = slices.Grow(c.answer, 4<<10)
		n, err = resp.Body.Read(c.answer[len(c.answer):cap(c.answer)])
		read := len(c.answer)
		c.answer = c.answer[:read+n]
		if s.first == 0 && c.dialect.begun(c.answer, read) {
			s.first = time.Since(start)
		}
	}
	s.total = time.Since(start)
	switch {
	case err != io.EOF:
		return s, err
	case resp.StatusCode != http.StatusOK:
		return s, fmt.Errorf("status %d: %.300s", resp.StatusCode, c.answer)
	}
	return s, c.dialect.check(c.answer)
}

// A crowd is clients that ask at the same time.
type crowd []*client

func dialCrowd(ctx context.Context, size int, addr string, q question) (crowd, error) {
	var clients crowd
	for range size {
		c, err := dial(ctx, addr, q)
		if err != nil {
			clients.close()
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func (clients crowd) close() {
	for _, c := range clients {
		c.conn.Close()
	}
}

// ask lets every client ask until the time is over, at least once and at most calls times. It
// returns all samples and how long it took.
func (clients crowd) ask(ctx context.Context, d time.Duration, calls int) ([]sample, time.Duration, error) {
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		samples []sample
		failed  error
	)
	start := time.Now()
	for _, c := range clients {
		group.Go(func() {
			var own []sample
			var err error
			for range calls {
				var s sample
				if s, err = c.ask(); err != nil {
					break
				}
				own = append(own, s)
				if time.Since(start) >= d || ctx.Err() != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			samples = append(samples, own...)
			failed = errors.Join(failed, err)
		})
	}
	group.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return samples, time.Since(start), failed
}
