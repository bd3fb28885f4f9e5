package flows

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

const (
	maxBody   = 1 << 20  // bytes of a body that are kept
	maxMemory = 64 << 20 // bytes of all bodies that are not written yet
)

// A memory limits the bytes of bodies in memory. Bodies beyond the limit are cut.
type memory struct{ used atomic.Int64 }

// take returns how many of n bytes may be kept.
func (m *memory) take(n int) int {
	if m.used.Add(int64(n)) > maxMemory {
		m.used.Add(int64(-n))
		return 0
	}
	return n
}

// A recording is the start of a body.
type recording struct {
	size int64 // of the whole body
	data []byte
	cut  bool
}

// add counts bytes, and keeps them as far as there is memory for them.
func (r *recording) add(p []byte, m *memory) {
	r.size += int64(len(p))
	if m == nil || len(p) == 0 || r.cut {
		return
	}
	n := m.take(min(len(p), maxBody-len(r.data)))
	r.data = append(r.data, p[:n]...)
	r.cut = n < len(p)
}

// steps are the times of a request on its way to the server. They are zero if a connection was
// reused, or if they are unknown.
type steps struct {
	dnsStart, dnsDone         time.Time
	connectStart, connectDone time.Time
	tlsDone                   time.Time
	gotConn, wroteRequest     time.Time
	address                   string // IP address of the server
}

// trace records the steps of a request that is sent with the trace in its context.
func (x *exchange) trace(address bool) *httptrace.ClientTrace {
	at := func(step func(*steps) *time.Time) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if t := step(&x.steps); !x.closed && t.IsZero() {
			*t = time.Now()
		}
	}
	return &httptrace.ClientTrace{
		DNSStart:         func(httptrace.DNSStartInfo) { at(func(s *steps) *time.Time { return &s.dnsStart }) },
		DNSDone:          func(httptrace.DNSDoneInfo) { at(func(s *steps) *time.Time { return &s.dnsDone }) },
		ConnectStart:     func(string, string) { at(func(s *steps) *time.Time { return &s.connectStart }) },
		ConnectDone:      func(string, string, error) { at(func(s *steps) *time.Time { return &s.connectDone }) },
		TLSHandshakeDone: func(tls.ConnectionState, error) { at(func(s *steps) *time.Time { return &s.tlsDone }) },
		WroteRequest:     func(httptrace.WroteRequestInfo) { at(func(s *steps) *time.Time { return &s.wroteRequest }) },
		GotConn: func(info httptrace.GotConnInfo) {
			at(func(s *steps) *time.Time { return &s.gotConn })
			if !address || info.Conn == nil || info.Conn.RemoteAddr() == nil {
				return
			}
			host, _, _ := net.SplitHostPort(info.Conn.RemoteAddr().String())
			x.mu.Lock()
			defer x.mu.Unlock()
			if !x.closed {
				x.steps.address = host
			}
		},
	}
}
