//go:build linux

package main

import (
	"context"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"perigee/bench/internal/measure"
	"perigee/internal/testing/testenv"
)

// The names of what is measured.
const (
	direct     = "direct"
	plainProxy = "plain"
	perigee    = "perigee"
	older      = "perigee before"
	command    = "perigee mitm"
	goproxy    = "goproxy"
	mitmproxy  = "mitmproxy"
)

// A proxy is one row: how to start it in front of the server, and what its clients trust.
type proxy struct {
	name  string
	about string // for the report
	start func(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error)
	build func(ctx context.Context, b *bench, p *proxy) error // may be nil
	asked bool                                                // by a flag of its own, so that -proxies does not leave it out
}

const goproxyVersion = "v1.9.2"

//go:embed goproxy.go.txt
var goproxySource []byte

func proxies() []*proxy {
	return []*proxy{
		{
			name: plainProxy, about: "`httputil.ReverseProxy` between two `http.Server` and `http.Transport`, 100 lines in `plain.go`",
			start: func(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
				p, err := b.role(ctx, plainProxy, dir, rolePlain, b.issuer.certificate, b.issuer.key, b.issuer.certificate)
				return p, b.issuer.roots, err
			},
		},
		{name: perigee, about: "`internal/intercept/mitm` and its forwarder", start: startPerigee},
		{name: command, about: "the command `perigee mitm --json`, its output unread", build: buildCommand, start: startCommand},
		{
			name: goproxy, about: "github.com/elazarl/goproxy " + goproxyVersion + " with `AllowHTTP2`, a certificate store and a P-256 authority",
			build: func(ctx context.Context, b *bench, _ *proxy) (err error) {
				module := measure.Module{Path: "github.com/elazarl/goproxy", Version: goproxyVersion, Source: goproxySource}
				b.goproxy, err = module.Build(ctx, filepath.Join(b.dir, "build-goproxy"))
				return err
			},
			start: func(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
				p, err := b.spawn(ctx, measure.Command{Name: goproxy, Program: b.goproxy, Home: dir,
					Args: []string{b.issuer.certificate, b.issuer.key, b.issuer.certificate}})
				return p, b.issuer.roots, err
			},
		},
		{name: mitmproxy, about: "mitmdump %s with `stream_large_bodies=1`, without which it holds back every stream", build: findMitmproxy, start: startMitmproxy},
	}
}

func (b *bench) role(ctx context.Context, name, dir string, args ...string) (*measure.Process, error) {
	return b.spawn(ctx, measure.Command{Name: name, Program: b.self, Args: args, Home: dir})
}

func findMitmproxy(ctx context.Context, _ *bench, p *proxy) error {
	out, err := exec.CommandContext(ctx, "mitmdump", "--version").Output()
	if err != nil {
		return errors.New("mitmdump is not installed (apt install mitmproxy)")
	}
	version, _, _ := strings.Cut(string(out), "\n")
	p.about = fmt.Sprintf(p.about, strings.TrimPrefix(version, "Mitmproxy: "))
	return nil
}

func startMitmproxy(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
	addr, err := measure.FreeAddress()
	if err != nil {
		return nil, nil, err
	}
	host, port, _ := strings.Cut(addr, ":")
	p, err := b.spawn(ctx, measure.Command{Name: mitmproxy, Program: "mitmdump", Home: dir, Addr: addr, Args: []string{
		"--listen-host", host, "--listen-port", port, "-q", "--set", "confdir=" + dir, "--set", "stream_large_bodies=1",
		"--set", "flow_detail=0", "--set", "ssl_verify_upstream_trusted_ca=" + b.issuer.certificate,
	}})
	if err != nil {
		return nil, nil, err
	}
	roots, err := readRoots(filepath.Join(dir, "mitmproxy-ca-cert.pem"))
	return p, roots, err
}

// An issuer is a certificate for localhost that is its own authority. The server has it, and
// proxies without an authority of their own show it to clients or sign with it.
type issuer struct {
	certificate, key string // files
	roots            *x509.CertPool
}

func makeIssuer(dir string) (*issuer, error) {
	now := time.Now()
	cert, key, err := testenv.Certificate("server", now.Add(-time.Hour), now.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	a := &issuer{certificate: filepath.Join(dir, "server.pem"), key: filepath.Join(dir, "server.key")}
	if err := errors.Join(os.WriteFile(a.certificate, cert, 0o600), os.WriteFile(a.key, key, 0o600)); err != nil {
		return nil, err
	}
	a.roots, err = readRoots(a.certificate)
	return a, err
}

// A target is a way to the server, and the process that is in between.
type target struct {
	name    string
	process *measure.Process // nil means direct
	route
}

// launch starts a proxy in front of the server of a protocol and makes one call.
func (b *bench) launch(ctx context.Context, p *proxy, protocol string) (*target, error) {
	dir, err := os.MkdirTemp(b.dir, "proxy-")
	if err != nil {
		return nil, err
	}
	process, roots, err := p.start(ctx, b, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	t := &target{p.name, process, route{protocol: protocol, server: b.servers[protocol].Addr, proxy: process.Addr, roots: roots}}
	clients, err := t.crowd(ctx, 1)
	if err != nil {
		process.Stop()
		return nil, fmt.Errorf("%s, %s: %w", p.name, protocol, err)
	}
	clients.close()
	return t, nil
}

// targets are the server and all proxies in front of it, which are started for the first comparison
// in a protocol.
func (b *bench) targets(ctx context.Context, protocol string) ([]*target, error) {
	if b.running[protocol] != nil {
		return b.running[protocol], nil
	}
	list := []*target{b.directly(protocol)}
	for _, p := range b.proxies {
		t, err := b.launch(ctx, p, protocol)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	b.running[protocol] = list
	return list, nil
}

func (b *bench) directly(protocol string) *target {
	return &target{name: direct, route: route{protocol: protocol, server: b.servers[protocol].Addr, roots: b.issuer.roots}}
}
