package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perigee/bench/internal/measure"
)

// openStreams is how many quiet streams are promised to be cheap.
const openStreams = 10_000

// defaultConnections is how many connections perigee accepts unless it is told otherwise.
const defaultConnections = 4096

// spareFiles are those that a process keeps open beside its streams.
const spareFiles = 256

// A crew opens streams at the same time; more of them would only wait for the processor.
const crew = 32

// A quiet is what streams on which nothing happens cost perigee, or the bare proxy.
type quiet struct {
	dialect  string
	size     int    // of the body that opened each of them
	protocol string // towards the provider
	wanted   int
	reached  int
	base     int64 // resident before, after one small call
	resident int64 // with all streams open, some seconds later
	peak     int64
	bare     bool // the bare proxy, and not perigee
}

func (q quiet) target() string {
	if q.bare {
		return targetNames[proxy]
	}
	return targetNames[perigee]
}

// perStream is the memory for one stream, in KB.
func (q quiet) perStream() float64 {
	return float64(q.resident-q.base) / float64(q.reached) / (1 << 10)
}

// measureStreams opens as many streams as wanted, or as the system lets a process have files for.
func (b *bench) measureStreams(ctx context.Context) error {
	if b.plan.streams == 0 {
		return nil
	}
	secure, err := makeCertificate(b.dir)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, protocol := range []string{overHTTP1, overHTTP2} {
		args, files := []string{roleProvider}, 2 // for each stream one connection on either side
		if protocol == overHTTP2 {
			args, files = append(args, secure.certificate, secure.key), 1
		}
		list := []quiet{{dialect: gemini.name, size: 1 << 10}, {dialect: chat.name, size: 1 << 10}, {dialect: chat.name, size: 100 << 10}}
		if protocol == overHTTP1 {
			list = append(list, quiet{dialect: gemini.name, size: 1 << 10, bare: true}, quiet{dialect: gemini.name, size: 100 << 10, bare: true})
		}
		for _, q := range list {
			q.protocol, q.wanted = protocol, b.plan.streams
			if q.size > 1<<10 {
				q.wanted = max(1, q.wanted/10) // memory for a stream shows with fewer, and so many bodies would fill a machine
			}
			q.reached = min(q.wanted, (measure.FileLimit()-spareFiles)/files)
			fmt.Fprintf(os.Stderr, "bench:   %s, %d streams, %s, %s, %s\n", q.target(), q.reached, q.dialect, measure.BytesText(int64(q.size)), protocol)
			provider, err := b.spawn(ctx, "provider", self, args...)
			if err != nil {
				return err
			}
			err = b.holdStreams(ctx, &q, provider, secure)
			provider.Stop()
			if err != nil {
				return fmt.Errorf("%s, %s, %s: %w", q.dialect, measure.BytesText(int64(q.size)), protocol, err)
			}
			b.report.streams = append(b.report.streams, q)
		}
	}
	return nil
}

const (
	overHTTP1 = "HTTP/1.1"
	overHTTP2 = "HTTP/2, TLS"
)

// holdStreams opens q.reached streams through a fresh process and looks at its memory while all are
// open.
func (b *bench) holdStreams(ctx context.Context, q *quiet, provider *measure.Process, secure *certificate) error {
	data, err := os.MkdirTemp(b.dir, "streams-")
	if err != nil {
		return err
	}
	url := "http://" + provider.Addr
	if q.protocol == overHTTP2 {
		url = "https://" + provider.Addr
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var p *measure.Process
	if q.bare {
		p, err = b.spawn(ctx, q.target(), self, roleProxy, provider.Addr)
	} else {
		env := []string{"SSL_CERT_FILE=" + secure.certificate}
		if q.reached+spareFiles > defaultConnections {
			env = append(env, fmt.Sprintf("PERIGEE_LIMITS_CONNECTIONS=%d", q.reached+spareFiles))
		}
		p, err = b.startPerigeeAt(ctx, data, url, env...)
	}
	if err != nil {
		return err
	}
	defer p.Stop()
	if err := firstAnswer(ctx, p, gemini, quickModel); err != nil {
		return err
	}
	if q.base, err = p.Memory("VmRSS"); err != nil {
		return err
	}
	streams, err := openQuiet(ctx, q.reached, p.Addr, newQuestion(named(q.dialect), quietModel, q.size))
	defer closeAll(streams)
	if err != nil {
		return fmt.Errorf("after %d streams: %w", len(streams), err)
	}
	if err := pause(ctx, b.plan.idle); err != nil {
		return err
	}
	// A process that has dropped streams is light for the wrong reason.
	if held, err := secure.askHeld(ctx, url); err != nil || held != q.reached {
		return errors.Join(err, fmt.Errorf("the provider holds %d streams instead of %d", held, q.reached))
	}
	if q.resident, err = p.Memory("VmRSS"); err != nil {
		return err
	}
	q.peak, err = p.Memory("VmHWM")
	return err
}

func named(name string) *dialect {
	for _, d := range dialects {
		if d.name == name {
			return d
		}
	}
	panic("bench: no dialect " + name)
}

// openQuiet opens n streams and reads the first event of each. It returns those that it has opened,
// also with an error.
func openQuiet(ctx context.Context, n int, addr string, q question) ([]net.Conn, error) {
	var (
		group   sync.WaitGroup
		next    atomic.Int64
		mu      sync.Mutex
		streams []net.Conn
		failed  error
	)
	request := q.request(addr)
	for range crew {
		group.Go(func() {
			for next.Add(1) <= int64(n) && ctx.Err() == nil {
				conn, err := openOne(ctx, addr, request)
				mu.Lock()
				if err == nil {
					streams = append(streams, conn)
				} else {
					failed = errors.Join(failed, err)
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	group.Wait()
	return streams, errors.Join(failed, ctx.Err())
}

// openConn connects and sends a request.
func openConn(ctx context.Context, addr string, request []byte) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: askLimit}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(askLimit)) // a connection that has just been made takes it
	if _, err := conn.Write(request); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// openOne makes a call and returns its connection as soon as the text has begun.
func openOne(ctx context.Context, addr string, request []byte) (net.Conn, error) {
	conn, err := openConn(ctx, addr, request)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, 0, 4<<10)
	for !bytes.Contains(answer, []byte(firstWords)) {
		n, err := conn.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		const good = "HTTP/1.1 200" // a refusal may leave the connection open
		if err != nil || len(answer) == cap(answer) || len(answer) >= len(good) && !bytes.HasPrefix(answer, []byte(good)) {
			conn.Close()
			return nil, errors.Join(err, fmt.Errorf("no text in %.300s", answer))
		}
	}
	return conn, nil
}

func closeAll(streams []net.Conn) {
	for _, conn := range streams {
		conn.Close()
	}
}

// askHeld asks a provider how many calls it holds.
func (c *certificate) askHeld(ctx context.Context, url string) (int, error) {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(c.certificate)
	if err != nil {
		return 0, err
	}
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+heldPath, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
