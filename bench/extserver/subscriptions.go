//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"perigee/internal/langserver/connectframe"
)

// topic is what the subscriptions are for.
const topic = "bench"

// patience is how long anything may take that does not fail.
const patience = time.Minute

// A cost is what subscriptions cost a server.
type cost struct {
	idle, full      int64 // resident memory, without and with all subscriptions
	median, slowest time.Duration
	cpu             time.Duration // of the server, for one push
}

// subscriptions opens all of them on each server, and pushes to the servers in turns.
func subscriptions(ctx context.Context, p plan, servers []*process) ([]cost, error) {
	costs := make([]cost, len(servers))
	times := make([][]time.Duration, len(servers))
	subscribers := make([]*subscribers, len(servers))
	for i, server := range servers {
		var err error
		if costs[i].idle, err = settled(ctx, server); err != nil {
			return nil, err
		}
		if subscribers[i], err = subscribeAll(server); err != nil {
			return nil, err
		}
		defer subscribers[i].close()
		if costs[i].full, err = settled(ctx, server); err != nil {
			return nil, err
		}
		if costs[i].cpu, err = server.cpu(); err != nil {
			return nil, err
		}
	}
	for n := range p.pushes {
		for i, s := range subscribers {
			took, err := s.push(fmt.Sprintf("push-%d-", n))
			if err != nil {
				return nil, fmt.Errorf("push %d: %w", n+1, err)
			}
			times[i] = append(times[i], took)
		}
	}
	for i, server := range servers {
		slices.Sort(times[i])
		costs[i].median, costs[i].slowest = times[i][p.pushes/2], times[i][p.pushes-1]
		after, err := server.cpu()
		if err != nil {
			return nil, err
		}
		costs[i].cpu = (after - costs[i].cpu) / time.Duration(p.pushes)
	}
	return costs, nil
}

// subscribers are all subscriptions to a server, and a connection for calls.
type subscribers struct {
	server      *process
	caller      net.Conn
	reader      *bufio.Reader
	connections []net.Conn
	got         chan received
}

func subscribeAll(server *process) (*subscribers, error) {
	caller, err := net.Dial("tcp4", server.address)
	if err != nil {
		return nil, err
	}
	s := &subscribers{server: server, caller: caller, reader: bufio.NewReader(caller), got: make(chan received, maxSubscriptions)}
	for i := range maxSubscriptions {
		conn, err := subscribe(server, s.got)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("subscription %d: %w", i+1, err)
		}
		s.connections = append(s.connections, conn)
	}
	return s, nil
}

func (s *subscribers) close() {
	for _, conn := range append(s.connections, s.caller) {
		_ = conn.Close()
	}
}

// settled is the resident memory some seconds after the last change, when the runtime has returned
// what it does not need.
func settled(ctx context.Context, server *process) (int64, error) {
	select {
	case <-time.After(3 * time.Second):
		return server.resident()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// received is a message of a subscription, or the error that ended it.
type received struct {
	message string
	at      time.Time
	err     error
}

// subscribe returns after the first message. Later ones go to the channel.
func subscribe(server *process, got chan<- received) (net.Conn, error) {
	conn, err := net.Dial("tcp4", server.address)
	if err != nil {
		return nil, err
	}
	body := connectframe.Frame(nil, 0, []byte("\x0a"+string(rune(len(topic)))+topic))
	reader := bufio.NewReader(conn)
	_, err = conn.Write(server.request(subscribeMethod, "application/connect+proto", body))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := http.ReadResponse(reader, nil)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil {
		_, err = readFrame(answer.Body)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetReadDeadline(time.Time{})
	go func() {
		for {
			message, err := readFrame(answer.Body)
			if strings.Contains(message, "push-") || err != nil {
				got <- received{message, time.Now(), err}
			}
			if err != nil {
				return
			}
		}
	}()
	return conn, nil
}

func readFrame(r io.Reader) (string, error) {
	var prefix [5]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return "", err
	}
	message := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	if _, err := io.ReadFull(r, message); err != nil {
		return "", err
	}
	if prefix[0] != 0 {
		return "", fmt.Errorf("the stream ended: %s", message)
	}
	return string(message), nil
}

// push changes a row, and returns the time until the last subscription has the change.
func (s *subscribers) push(value string) (time.Duration, error) {
	body := fmt.Sprintf(`{"update":{"topicName":%q,"appliedUpdate":{"key":"row","newRow":{"value":%q}}}}`,
		topic, value+strings.Repeat("v", 1<<10))
	request := s.server.request(pushMethod, "application/json", []byte(body))
	began := time.Now()
	called := make(chan error, 1)
	go func() { called <- call(s.caller, s.reader, request, "{") }()
	last := began
	for n := range maxSubscriptions {
		select {
		case r := <-s.got:
			if r.err != nil || !strings.Contains(r.message, value) {
				return 0, fmt.Errorf("a subscription got %.50q: %w", r.message, r.err)
			}
			if r.at.After(last) {
				last = r.at
			}
		case <-time.After(patience):
			return 0, fmt.Errorf("%d of %d subscriptions have it after %v", n, maxSubscriptions, patience)
		}
	}
	return last.Sub(began), <-called
}
