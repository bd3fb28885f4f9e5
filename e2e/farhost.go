package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A farHost is a network namespace, connected to this one by a cable.
type farHost struct {
	holder *exec.Cmd // a process in it
	path   string
}

// namespaceCommand runs what follows in a network namespace of its own.
func namespaceCommand() []string {
	if os.Getuid() != 0 {
		return []string{"unshare", "--net", "--map-root-user", "--"}
	}
	return []string{"unshare", "--net", "--"}
}

func newFarHost(ctx context.Context) (_ *farHost, err error) {
	// The process says when it is inside.
	command := append(namespaceCommand(), "sh", "-c", "echo inside && exec sleep 3600")
	h := &farHost{holder: exec.CommandContext(ctx, command[0], command[1:]...)}
	said, err := h.holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.holder.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if _, err := io.ReadFull(said, make([]byte, len("inside\n"))); err != nil {
		return nil, fmt.Errorf("enter a network namespace: %w", err)
	}
	pid := strconv.Itoa(h.holder.Process.Pid)
	h.path = "/proc/" + pid + "/ns/net"
	inside := []string{"nsenter", "--net=" + h.path, "ip"}
	for _, args := range [][]string{
		{"ip", "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", pid},
		{"ip", "addr", "add", hostBefore + "/24", "dev", "near0"},
		{"ip", "link", "set", "near0", "up"},
		append(inside, "addr", "add", hostProvider+"/24", "dev", "far0"),
		append(inside, "link", "set", "far0", "up"),
	} {
		if err := execute(ctx, args...); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *farHost) close() {
	_ = h.holder.Process.Kill()
	_ = h.holder.Wait()
	_ = execute(context.Background(), "ip", "link", "del", "near0")
}

func execute(ctx context.Context, args ...string) error {
	if output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, firstLines(string(output), 2))
	}
	return nil
}

// A farProvider passes calls on to a simulator, over TLS, and thinks for a moment before each.
type farProvider struct {
	url         string
	certificate string // file
	server      *http.Server
	http2       bool

	mu     sync.Mutex
	from   []string // addresses, in the order in which they were first seen
	others string   // a protocol that was not to be used
}

const farThinks = 100 * time.Millisecond

func newFarProvider(far *farHost, simulator string, http2 bool, certificate string) (*farProvider, error) {
	target, err := url.Parse(simulator)
	if err != nil {
		return nil, err
	}
	pair, err := selfSigned(certificate, hostProvider)
	if err != nil {
		return nil, err
	}
	listener, err := listenIn(far.path, hostProvider+":0")
	if err != nil {
		return nil, fmt.Errorf("listen in another network namespace: %w", err)
	}
	p := &farProvider{url: "https://" + listener.Addr().String(), certificate: certificate, http2: http2}
	quiet := log.New(io.Discard, "", 0) // of connections that died
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: quiet}
	p.server = &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ErrorLog:  quiet,
		Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.saw(r)
			if pause(r.Context(), farThinks) == nil {
				forward.ServeHTTP(w, r)
			}
		}),
	}
	p.server.Protocols.SetHTTP1(!http2)
	p.server.Protocols.SetHTTP2(http2)
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

func (p *farProvider) close() { _ = p.server.Close() }

func (p *farProvider) saw(r *http.Request) {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.from); n == 0 || p.from[n-1] != host {
		p.from = append(p.from, host)
	}
	if (r.ProtoMajor == 2) != p.http2 {
		p.others = r.Proto
	}
}

func (p *farProvider) sources() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from
}

// check holds that calls came over the protocol that was meant, from the first address and then
// from the second.
func (p *farProvider) check() error {
	if p.others != "" {
		return fmt.Errorf("calls came over %s", p.others)
	}
	if got := strings.Join(p.sources(), " "); got != hostBefore+" "+hostAfter {
		return fmt.Errorf("calls came from %s", got)
	}
	return nil
}

// selfSigned makes a certificate for names and addresses and writes it to a file, for perigee to
// trust.
func selfSigned(file string, names ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, os.WriteFile(file, encoded, 0o600)
}
