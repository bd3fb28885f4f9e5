package main

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"perigee/bench/internal/measure"
)

func (b *bench) buildPeer(ctx context.Context, p *peer) (binary string, err error) {
	module := measure.Module{Path: p.module, Version: p.version, Package: p.module + p.command, CGO: p.cgo}
	return module.Build(ctx, filepath.Join(b.dir, "build-"+p.name))
}

// startPeer runs a peer in front of the provider and waits until it accepts connections.
func (b *bench) startPeer(ctx context.Context, p *peer, binary string) (*measure.Process, error) {
	dir, err := os.MkdirTemp(b.dir, "peer-")
	if err != nil {
		return nil, err
	}
	addr, err := measure.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args, err := p.configure(dir, port, "http://"+b.provider.Addr)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, measure.Command{
		Name: p.name, Program: binary, Args: args, Home: dir, Addr: addr,
		// Some ask their makers for news when they start. Nothing that is measured here may leave
		// the machine.
		Env: []string{"HTTPS_PROXY=http://127.0.0.1:9"},
	})
}
