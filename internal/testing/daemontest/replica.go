package daemontest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// NewSealKey is a key for accounts in a database that daemons share.
func NewSealKey() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

// StoreConfig is the configuration of such a database.
func StoreConfig(address, key string) string {
	return fmt.Sprintf("store: {url: %q, seal_key: %q}\n", address, key)
}

// A Wire is the way to the database, which can be cut.
type Wire struct {
	target string
	mu     sync.Mutex
	cut    bool
	open   map[net.Conn]bool
}

// NewWire is the way to a database: direct is its address, and through that at the near end of the
// wire.
func NewWire(t *testing.T, direct string) (w *Wire, through string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &Wire{target: u.Host, open: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(near, running.Go) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.Set(true)
		await.Return(t, running.Wait, "the connections to the database")
	})
	return w, u.String()
}

// carry copies in both directions until one of the connections ends, which ends the other.
func (w *Wire) carry(near net.Conn, start func(func())) {
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = near.Close()
		return
	}
	w.mu.Lock()
	cut := w.cut
	w.open[near], w.open[far] = true, true
	w.mu.Unlock()
	if !cut {
		start(func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		})
		_, _ = io.Copy(near, far)
	}
	_, _ = near.Close(), far.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}

// Set cuts the wire with all connections on it, or restores it.
func (w *Wire) Set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.open {
			_ = c.Close()
		}
	}
}
