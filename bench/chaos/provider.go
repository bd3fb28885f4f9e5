package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A provider generates the answers, or does to them what the table of lies says. It listens three
// times: with TLS and HTTP/2, with connections that it closes after a moment of idleness, and as
// the Antigravity gateway. Sign-in, accounts and lists of models come from "perigee simulate",
// which stands behind it.
type provider struct {
	seed    uint64
	rest    *httputil.ReverseProxy // to perigee simulate
	outage  atomic.Int32           // the status of every answer; 0 means none
	dead    atomic.Bool            // new connections are black holes
	started time.Time
	settle  func(context.Context) // waits before an answer begins

	mu       sync.Mutex
	attempts map[string][]*attempt
	conns    map[*holeConn]bool
	servers  []*http.Server
}

// An attempt is one request for a tag.
type attempt struct {
	number     int
	lie        string
	of         int
	upstream   string
	stream     bool
	began      time.Time
	answers    time.Time // when its answer began; zero means it did not
	ended      time.Time // zero means it is open
	completely bool      // everything was written
}

func newProvider(seed uint64, simulator string) (*provider, error) {
	target, err := url.Parse(simulator)
	if err != nil {
		return nil, err
	}
	p := &provider{seed: seed, started: time.Now(), attempts: map[string][]*attempt{}, conns: map[*holeConn]bool{}}
	p.settle = func(ctx context.Context) { wait(ctx, readWithin) }
	p.rest = httputil.NewSingleHostReverseProxy(target)
	p.rest.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return p, nil
}

// listen opens an address for one upstream. An idle time of 0 keeps connections open.
func (p *provider) listen(upstream string, idle time.Duration, config *tls.Config) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{
		IdleTimeout: idle, TLSConfig: config, ErrorLog: quiet,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secured, ok := c.(*tls.Conn); ok {
				c = secured.NetConn()
			}
			return context.WithValue(ctx, connection{}, c)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, upstream) }),
	}
	p.servers = append(p.servers, server)
	holes := &holeListener{l, p}
	if config == nil {
		go func() { _ = server.Serve(holes) }()
		return "http://" + l.Addr().String(), nil
	}
	go func() { _ = server.ServeTLS(holes, "", "") }()
	return "https://" + l.Addr().String(), nil
}

func (p *provider) close() {
	for _, s := range p.servers {
		_ = s.Close()
	}
}

// connection is the key of the connection of a request.
type connection struct{}

// request words, as prompts carry them: ask TAG CHUNKS text|call any|kind
const askWord = "chaos-ask "

func (p *provider) serve(w http.ResponseWriter, r *http.Request, upstream string) {
	if !strings.Contains(r.URL.Path, "enerateContent") {
		p.rest.ServeHTTP(w, r)
		return
	}
	began := time.Now()
	body, err := io.ReadAll(r.Body)
	at := bytes.LastIndex(body, []byte(askWord))
	if err != nil || at < 0 {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	var tag, form, mood string
	var of int
	if _, err := fmt.Sscanf(string(body[at+len(askWord):]), "%s %d %s %s", &tag, &of, &form, &mood); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := &attempt{of: of, upstream: upstream, stream: strings.Contains(r.URL.Path, "stream"), began: began}
	p.mu.Lock()
	select {
	case <-r.Context().Value(connection{}).(*holeConn).closed:
		// The request can have been sent again and counted already. Counted now, it would look like
		// the later one.
		p.mu.Unlock()
		return
	default:
	}
	a.number = len(p.attempts[tag]) + 1
	p.attempts[tag] = append(p.attempts[tag], a)
	p.mu.Unlock()
	rep := &reply{
		provider: p, w: w, r: r, flush: http.NewResponseController(w), tag: tag, attempt: a, call: form == "call",
		gateway: upstream == gravity, random: p.random(tag, a.number),
	}
	lie := p.choose(rep.random, mood)
	p.mu.Lock()
	a.lie = lie.name
	p.mu.Unlock()
	defer p.over(a)
	lie.tell(rep)
}

// readWithin is how long an answer waits before it begins. A request that perigee sent to another
// upstream and gave up earlier is read meanwhile. One that is read later counts as sent later.
const readWithin = 25 * time.Millisecond

// answer notes that the answer of an attempt begins.
func (p *provider) answer(ctx context.Context, a *attempt) {
	p.settle(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	a.answers = time.Now()
}

// over notes that an attempt has ended, also when the handler panics to break its connection.
func (p *provider) over(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ended = time.Now()
}

// random makes what happens to an attempt depend on the seed and the tag alone, not on what else
// goes on.
func (p *provider) random(tag string, attempt int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, tag, attempt)
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

func (p *provider) choose(random *rand.Rand, mood string) lie {
	if status := p.outage.Load(); status != 0 && mood != "kind" {
		return lie{name: fmt.Sprint("outage ", status), tell: func(r *reply) { r.refuse(int(status), "1s") }}
	}
	if mood == "kind" {
		return lies[random.IntN(2)]
	}
	n := random.IntN(100)
	for _, l := range lies {
		if n -= l.percent; n < 0 {
			return l
		}
	}
	return lies[0]
}

// sent tells the checker about an attempt; 0 is the last one.
func (p *provider) sent(tag string, number int) sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.attempts[tag]
	if number == 0 {
		number = len(all)
	}
	if number < 1 || number > len(all) {
		return sent{attempts: len(all)}
	}
	a := all[number-1]
	s := sent{attempts: len(all), repeated: a.lie == lieTwice, empty: strings.HasPrefix(a.lie, lieEmpty)}
	for _, b := range all[number:] {
		if b.began.After(a.answers) {
			s.later++
		}
	}
	return s
}

// history is what happened to a tag, for evidence.
func (p *provider) history(tag string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, a := range p.attempts[tag] {
		fmt.Fprintf(&b, "    attempt %d at %s (%s, stream %v): %s", a.number, a.began.Format(clockForm), a.upstream, a.stream, a.lie)
		if !a.answers.IsZero() {
			fmt.Fprintf(&b, ", answers at %s", a.answers.Format(clockForm))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// each calls do with every attempt.
func (p *provider) each(do func(tag string, a *attempt)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tag, all := range p.attempts {
		for _, a := range all {
			do(tag, a)
		}
	}
}

// A holeConn is a connection that can become a black hole: it stays open, and no byte passes any
// more.
type holeConn struct {
	net.Conn
	provider *provider
	hole     atomic.Bool
	closed   chan struct{}
	once     sync.Once
}

type holeListener struct {
	net.Listener
	provider *provider
}

func (l *holeListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &holeConn{Conn: conn, provider: l.provider, closed: make(chan struct{})}
	c.hole.Store(l.provider.dead.Load())
	l.provider.mu.Lock()
	l.provider.conns[c] = true
	l.provider.mu.Unlock()
	return c, nil
}

var errHole = errors.New("the connection was a black hole")

func (c *holeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.hole.Load() {
		<-c.closed
		return 0, errHole
	}
	return n, err
}

func (c *holeConn) Write(b []byte) (int, error) {
	if c.hole.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *holeConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.provider.mu.Lock()
		delete(c.provider.conns, c)
		c.provider.mu.Unlock()
	})
	if c.hole.Load() {
		return nil // the peer hears nothing of it; the descriptor is closed with swallow's end
	}
	return c.Conn.Close()
}

// swallow makes black holes of all open connections for a time. New connections work.
func (p *provider) swallow(ctx context.Context, d time.Duration) {
	p.mu.Lock()
	var holes []*holeConn
	for c := range p.conns {
		c.hole.Store(true)
		holes = append(holes, c)
	}
	p.mu.Unlock()
	wait(ctx, d)
	for _, c := range holes {
		_ = c.Conn.Close()
		_ = c.Close()
	}
}

// hangUp closes connections that are open.
func (p *provider) hangUp() {
	p.mu.Lock()
	var all []*holeConn
	for c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}
