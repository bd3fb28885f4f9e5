//go:build linux

package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" // for -pprof
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"perigee/bench/internal/measure"
	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
)

// playPerigee is perigee's proxy without anything that looks at requests. The arguments are the
// directory of its authority, and an address for profiles or nothing.
func playPerigee(args []string) error {
	hosts, err := netguard.ParseHosts([]string{serverName})
	if err != nil {
		return err
	}
	ca, _, err := authority.Open(args[0], hosts, time.Now)
	if err != nil {
		return err
	}
	if args[1] != "" {
		go func() { fmt.Fprintln(os.Stderr, http.ListenAndServe(args[1], nil)) }()
	}
	logger := slog.New(slog.DiscardHandler)
	p := mitm.New(mitm.Options{
		Authority: ca, Hosts: hosts, Logger: logger,
		Handler: mitm.NewForwarder(mitm.ForwarderOptions{Logger: logger}),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", l.Addr())
	return p.Serve(l)
}

func startPerigee(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
	return b.startBuild(ctx, dir, b.self, b.options.pprof)
}

// startOlder starts perigee's proxy in another build of this program.
func startOlder(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
	return b.startBuild(ctx, dir, b.options.against, "")
}

func (b *bench) startBuild(ctx context.Context, dir, program, pprof string) (*measure.Process, *x509.CertPool, error) {
	p, err := b.spawn(ctx, measure.Command{Name: perigee, Program: program, Home: dir,
		Args: []string{rolePerigee, filepath.Join(dir, "ca"), pprof},
		Env:  []string{"SSL_CERT_FILE=" + b.issuer.certificate, "SSL_CERT_DIR=" + dir}}) // the roots that all proxies have
	if err != nil {
		return nil, nil, err
	}
	roots, err := readRoots(filepath.Join(dir, "ca", "ca.pem"))
	return p, roots, err
}

// buildCommand builds perigee as it is released.
func buildCommand(ctx context.Context, b *bench, _ *proxy) error {
	b.binary = filepath.Join(b.dir, "perigee")
	build := exec.CommandContext(ctx, "go", "build", "-pgo=auto", "-trimpath", "-ldflags", "-s -w", "-o", b.binary, "perigee/cmd/perigee")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build perigee: %w\n%s", err, out)
	}
	return nil
}

// startCommand starts perigee mitm. What it writes about each request goes nowhere.
func startCommand(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
	return startBuilt(b.binary)(ctx, b, dir)
}

// startBuilt returns a function that starts perigee mitm in a build of perigee.
func startBuilt(program string) func(context.Context, *bench, string) (*measure.Process, *x509.CertPool, error) {
	return func(ctx context.Context, b *bench, dir string) (*measure.Process, *x509.CertPool, error) {
		data := filepath.Join(dir, "data")
		p, err := b.spawn(ctx, measure.Command{
			Name: command, Program: program, Home: dir, Env: []string{"PERIGEE_DATA_DIR=" + data},
			Args: []string{"mitm", "--listen", "127.0.0.1:0", "--host", serverName, "--upstream-ca", b.issuer.certificate, "--json"},
		})
		if err != nil {
			return nil, nil, err
		}
		roots, err := readRoots(filepath.Join(data, "ca", "mitm", "ca.pem"))
		return p, roots, err
	}
}
