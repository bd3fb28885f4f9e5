package main

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os/signal"
	"strconv"
	"syscall"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/intercept/mitm"
	"perigee/internal/lib/netguard"
	"perigee/internal/store/config"
)

// mitmCommand is perigee mitm: it intercepts until the context ends.
func mitmCommand(ctx context.Context, env *cli.Env, args []string) error {
	s := &mitmSession{env: env}
	var listen, upstreamCA, upstreamProxy string
	var patterns []string
	env.Flags.StringVar(&listen, "listen", "", "")
	env.Flags.StringVar(&s.transparent, "transparent", "", "")
	env.Flags.StringVar(&upstreamCA, "upstream-ca", "", "")
	env.Flags.StringVar(&upstreamProxy, "upstream-proxy", "", "")
	env.Flags.StringVar(&s.harFile, "har", "", "")
	env.Flags.Func("host", "", func(pattern string) error {
		patterns = append(patterns, pattern)
		return nil
	})
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	if err := checkLoopback("--listen", listen); err != nil {
		return err
	}
	if err := checkLoopback("--transparent", s.transparent); err != nil {
		return err
	}
	loaded, err := config.Load(config.Sources{Path: env.Config, Spare: func(key string) bool { return key != "interception.upstream_proxy" }})
	if err != nil {
		return err
	}
	out := newReporter(env, loaded.Config)
	out.reportWarnings(loaded)
	s.Interception, s.dataDir, s.logger = loaded.Config.Interception, loaded.Config.DataDir, out.logger
	switch samePort := portOf(s.transparent) != "0" && portOf(s.transparent) == portOf(cmp.Or(listen, s.Listen)); {
	case samePort && listen != "":
		return cli.Usagef("mitm: --listen and --transparent need different ports; port 0 chooses a free one")
	case samePort: // the port of the configuration, to which perigee redirect leads by default
		s.Listen = "127.0.0.1:0"
	case listen != "":
		s.Listen = listen
	}
	if upstreamCA != "" {
		s.UpstreamCA = upstreamCA
	}
	if upstreamProxy != "" {
		s.UpstreamProxy = perigee.NewSecret(upstreamProxy)
	}
	if len(patterns) > 0 {
		s.Hosts, s.ownHosts = patterns, true
	}
	if err := s.check(); err != nil {
		return err
	}
	// A reader of the lines that goes away ends the command like a signal does, so that the HAR
	// file is complete.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	// So does a terminal that is closed.
	if !signal.Ignored(syscall.SIGHUP) {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	return s.run(ctx)
}

// portOf returns the port of an address, or "0" if it has none.
func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "0"
	}
	return port
}

// checkLoopback refuses an address that other machines could use: they would use the network of
// this one.
func checkLoopback(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return cli.Usagef("mitm: %s takes an address such as 127.0.0.1:8742, got %q", flag, address)
	}
	if !netguard.ListensOnLoopback(address) {
		return cli.Usagef("mitm: %s %s can be reached from other machines; use 127.0.0.1:%s", flag, address, port)
	}
	return nil
}

// check parses the patterns of hosts and the settings of connections to servers.
func (s *mitmSession) check() (err error) {
	if s.hosts, err = netguard.ParseHosts(s.Hosts); err != nil {
		return cli.Usagef("mitm: --host %v", err)
	}
	s.transport = mitm.TransportOptions{CAFile: s.UpstreamCA}
	if proxy := s.UpstreamProxy.Reveal(); proxy != "" {
		s.transport.Proxy, err = url.Parse(proxy)
		if err != nil || s.transport.Proxy.Host == "" || s.transport.Proxy.Scheme != "http" && s.transport.Proxy.Scheme != "socks5" {
			return cli.Usagef("mitm: --upstream-proxy takes an http:// or socks5:// URL, such as http://127.0.0.1:3128")
		}
	}
	if s.dial, err = mitm.Dialer(s.transport); err == nil {
		_, err = mitm.NewTransport(s.transport) // with the certificates of the file
	}
	if err != nil {
		return cli.Usagef("mitm: %v", err)
	}
	return nil
}
