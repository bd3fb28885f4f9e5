// Package mitmfront makes a server behind an interception proxy look like a server: it is for test
// programs that do not speak CONNECT.
package mitmfront

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
)

// Host is the name that clients must use, and for which the server needs a certificate.
const Host = "localhost"

// A Front is a listener. Its connections go through an interception proxy of its own to a server.
type Front struct {
	Addr  *net.TCPAddr // of the listener, on loopback
	Roots []byte       // what clients must trust, in PEM

	dir      string
	listener net.Listener
	proxy    *mitm.Proxy
	tunnel   string // the server as CONNECT names it
	address  string // of the proxy
	group    sync.WaitGroup
}

// Open starts a proxy in front of the server at addr. The server's certificate is signed by one of
// the roots, in PEM.
func Open(addr string, roots []byte) (*Front, error) {
	dir, err := os.MkdirTemp("", "perigee-front-")
	if err != nil {
		return nil, err
	}
	f := &Front{dir: dir}
	if err := f.open(addr, roots); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, nil
}

func (f *Front) open(addr string, roots []byte) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	f.tunnel = net.JoinHostPort(Host, port)
	rootsFile := filepath.Join(f.dir, "roots.pem")
	if err := os.WriteFile(rootsFile, roots, 0o600); err != nil {
		return err
	}
	hosts, err := netguard.ParseHosts([]string{Host})
	if err != nil {
		return err
	}
	ca, _, err := authority.Open(filepath.Join(f.dir, "ca"), hosts, time.Now)
	if err != nil {
		return err
	}
	f.Roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Info().Certificate.Raw})
	logger := slog.New(slog.DiscardHandler)
	forwarder := mitm.NewForwarder(mitm.ForwarderOptions{Transport: mitm.TransportOptions{CAFile: rootsFile}, Logger: logger})
	f.proxy = mitm.New(mitm.Options{Authority: ca, Hosts: hosts, Handler: forwarder, Logger: logger})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return errors.Join(err, inner.Close())
	}
	f.Addr, f.address = f.listener.Addr().(*net.TCPAddr), inner.Addr().String()
	f.group.Go(func() { _ = f.proxy.Serve(inner) })
	f.group.Go(f.accept)
	return nil
}

func (f *Front) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.group.Go(func() {
			defer client.Close()
			_ = f.pass(client) // the client sees a closed connection
		})
	}
}

// pass sends a connection through a tunnel of the proxy, until one side ends it.
func (f *Front) pass(client net.Conn) error {
	server, err := net.Dial("tcp", f.address)
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := fmt.Fprintf(server, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", f.tunnel); err != nil {
		return err
	}
	reader := bufio.NewReader(server)
	answer, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT %s: %s", f.tunnel, answer.Status)
	}
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	})
	_, err = io.Copy(client, reader)
	client.Close()
	group.Wait()
	return err
}

// Close ends all connections and waits for them.
func (f *Front) Close() error {
	err := f.listener.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // connections are cut at once
	_ = f.proxy.Shutdown(ctx)
	f.group.Wait()
	return errors.Join(err, os.RemoveAll(f.dir))
}
