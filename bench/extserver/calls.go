//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A speed is how fast a server answers, and what that costs it.
type speed struct {
	rate float64 // calls per second, the median of all rounds
	cpu  float64 // microseconds per call, over all rounds
}

// compare calls both servers in turns.
func compare(p plan, bare, ours *process, codec string, connections int) ([2]speed, error) {
	var speeds [2]speed
	var rates [2][]float64
	for i, server := range []*process{bare, ours} { // warm both up
		if _, err := load(server, codec, connections, p.turn/3); err != nil {
			return speeds, err
		}
		before, err := server.cpu()
		if err != nil {
			return speeds, err
		}
		speeds[i].cpu = -float64(before.Microseconds())
	}
	var calls [2]int64
	for range p.rounds {
		for i, server := range []*process{bare, ours} {
			began := time.Now()
			n, err := load(server, codec, connections, p.turn)
			if err != nil {
				return speeds, err
			}
			calls[i] += n
			rates[i] = append(rates[i], float64(n)/time.Since(began).Seconds())
		}
	}
	for i, server := range []*process{bare, ours} {
		after, err := server.cpu()
		if err != nil {
			return speeds, err
		}
		slices.Sort(rates[i])
		speeds[i].rate = rates[i][len(rates[i])/2]
		speeds[i].cpu = (speeds[i].cpu + float64(after.Microseconds())) / float64(calls[i])
	}
	return speeds, nil
}

// load calls GetSecretValue on each connection, one call after the other, and returns how many
// there were.
func load(server *process, codec string, connections int, d time.Duration) (int64, error) {
	body := []byte("\x0a\x0boauth_token")
	if codec == "json" {
		body = []byte(`{"key":"oauth_token"}`)
	}
	request := server.request("GetSecretValue", "application/"+codec, body)
	var calls atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, connections)
	until := time.Now().Add(d)
	for range connections {
		group.Go(func() {
			conn, err := net.Dial("tcp4", server.address)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			reader := bufio.NewReader(conn)
			for time.Now().Before(until) {
				if err := call(conn, reader, request, accessToken); err != nil {
					errs <- err
					return
				}
				calls.Add(1)
			}
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return calls.Load(), nil
	}
}

// request is the request of one call as bytes.
func (p *process) request(method, contentType string, body []byte) []byte {
	head := fmt.Sprintf("POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Codeium-Csrf-Token: %s\r\n\r\n",
		service, method, p.address, contentType, len(body), p.csrf)
	return append([]byte(head), body...)
}

// call sends a request and reads the answer, which must contain the text.
func call(conn net.Conn, reader *bufio.Reader, request []byte, text string) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(text)) {
		return fmt.Errorf("the answer is %s: %q", answer.Status, body)
	}
	return nil
}
