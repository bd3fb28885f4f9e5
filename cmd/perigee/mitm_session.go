package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/flows"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// drainTime is how long open requests may take after the end.
const drainTime = 5 * time.Second

// A mitmSession is one run of the command.
type mitmSession struct {
	config.Interception  // of the configuration, with the values of flags
	dataDir              string
	logger               *slog.Logger
	env                  *cli.Env
	transparent, harFile string
	ownHosts             bool // of --host
	hosts                netguard.HostList
	transport            mitm.TransportOptions
	dial                 func(ctx context.Context, network, address string) (net.Conn, error)

	authority  *authority.Authority
	explicit   net.Listener
	redirected []net.Listener
	lines      *flows.Lines
	har        *flows.HAR // may be nil
}

// run intercepts until the context ends, or the reader of the lines goes away.
func (s *mitmSession) run(ctx context.Context) error {
	if err := s.openAuthority(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	colour := terminal.Is(s.env.Stdout) && terminal.WantsColour()
	s.lines = flows.NewLines(flows.LinesOptions{Out: s.env.Stdout, JSON: s.env.JSON, Width: s.env.Width, Colour: colour, Zone: command.Zone()})
	proxy, observer := s.newProxy()
	failed := make(chan error, 1+len(s.redirected))
	go func() { failed <- proxy.Serve(s.explicit) }()
	for _, l := range s.redirected {
		go func() { failed <- proxy.ServeTransparent(l) }()
	}
	s.announce()
	var err error
	select {
	case <-ctx.Done():
	case <-s.lines.Broken():
	case err = <-failed:
		err = fmt.Errorf("mitm: the listener failed: %w", err)
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	_ = proxy.Shutdown(drain)
	return errors.Join(err, s.finish(observer))
}

// openAuthority opens the certificate authority. --host has one of its own, so that the one of the
// configuration stays valid.
func (s *mitmSession) openAuthority() (err error) {
	if err := datadir.Secure(s.dataDir, s.logger); err != nil {
		return err
	}
	dir := filepath.Join(s.dataDir, "ca")
	if s.ownHosts {
		dir = filepath.Join(dir, "mitm")
	}
	made := false
	if s.authority, made, err = authority.Open(dir, s.hosts, time.Now); err != nil {
		return err
	}
	s.env.Remark("certificate authority: %s", s.authority.Info().Path)
	if made {
		s.env.Remark("the certificate authority is new; clients must trust it first")
	}
	return nil
}

// open opens the listeners and the HAR file, or nothing.
func (s *mitmSession) open() (err error) {
	if s.explicit, err = net.Listen("tcp", s.Listen); err != nil {
		return cli.ListenError(err, s.Listen)
	}
	if err = s.openRedirected(); err == nil && s.harFile != "" {
		s.har, err = flows.NewHAR(flows.HAROptions{Path: s.harFile, Version: programVersion(), Logger: s.logger})
		if err != nil {
			err = fmt.Errorf("mitm: the HAR file cannot be written: %w; choose another one with --har", err)
		}
	}
	if err != nil {
		for _, l := range append(s.redirected, s.explicit) {
			_ = l.Close()
		}
	}
	return err
}

// openRedirected opens the address for redirected connections. A redirect leads to the loopback
// address of the family that a connection is of, so that there are two.
func (s *mitmSession) openRedirected() error {
	if s.transparent == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.transparent)
	if err != nil {
		return errors.New(strings.ReplaceAll(cli.ListenError(err, s.transparent).Error(), "--listen", "--transparent"))
	}
	s.redirected = append(s.redirected, l)
	if host, port, _ := net.SplitHostPort(l.Addr().String()); host == "127.0.0.1" {
		if six, err := net.Listen("tcp", "[::1]:"+port); err == nil { // there is not always IPv6
			s.redirected = append(s.redirected, six)
		}
	}
	return nil
}

// newProxy puts the parts together.
func (s *mitmSession) newProxy() (*mitm.Proxy, *flows.Observer) {
	observer := flows.New(flows.Options{Lines: s.lines, HAR: s.har, Proxied: s.transport.Proxy != nil,
		Next: mitm.NewForwarder(mitm.ForwarderOptions{
			Transport: s.transport, Logger: s.logger,
			Failed: func(w http.ResponseWriter, r *http.Request, err error) {
				flows.SetError(r.Context(), err)
				mitm.AnswerFailed(w, r, err)
			},
			Broken: func(r *http.Request, err error) { flows.SetError(r.Context(), err) },
		})})
	options := mitm.Options{Authority: s.authority, Hosts: s.hosts, Handler: observer, Dial: s.dial, Logger: s.logger,
		Tunnelled: func(t mitm.Tunnel) { observer.Tunnel(flowOf(t)) }}
	if s.transport.Proxy != nil { // which may refuse CONNECT to port 80
		options.Plain = mitm.NewForwarder(mitm.ForwarderOptions{Transport: s.transport, Logger: s.logger})
	}
	return mitm.New(options), observer
}

// flowOf returns a tunnel as a flow.
func flowOf(t mitm.Tunnel) flows.Flow {
	f := flows.Flow{Time: t.Began, URL: t.Address, Status: http.StatusOK, RequestBytes: t.Sent, ResponseBytes: t.Received,
		DurationMS: float64(t.Took.Microseconds()) / 1000}
	if t.Err != nil {
		f.Error = t.Err.Error()
		if t.Sent+t.Received == 0 {
			f.Status = 0
		}
	}
	return f
}

// announce prints where and how to connect. Scripts wait for the last line.
func (s *mitmSession) announce() {
	address := "http://" + s.explicit.Addr().String()
	if bundle, err := s.authority.WriteBundle(); err != nil {
		s.logger.Warn("no file with the certificates of the system and of the authority", "error", err)
	} else if terminal.Is(s.env.Stderr) {
		s.env.Remark("hosts: %s", strings.Join(s.hosts.Patterns(), ", "))
		s.env.Remark("to intercept a program: HTTPS_PROXY=%s SSL_CERT_FILE=%s NODE_EXTRA_CA_CERTS=%s PROGRAM", address, bundle, s.authority.Info().Path)
	}
	for _, l := range s.redirected {
		s.env.Remark("intercepting redirected connections on %s", l.Addr())
	}
	s.env.Remark("intercepting on %s", address)
}

// finish completes the recordings.
func (s *mitmSession) finish(observer *flows.Observer) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	observer.Wait(ctx)
	missed := s.lines.Close(time.Second)
	select {
	case <-s.lines.Broken():
	default:
		if missed > 0 {
			s.env.Remark("%s not printed, because nothing read the output", terminal.Number(missed, "flow was", "flows were"))
		}
	}
	if s.har == nil {
		return nil
	}
	if err := s.har.Close(); err != nil {
		return fmt.Errorf("mitm: the HAR file is not complete: %w", err)
	}
	return nil
}
