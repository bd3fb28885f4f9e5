package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
)

// A refusal is a URL or an address that is not for us to reach. Its text goes to the client, so it says nothing about
// what stands behind a name: errNotPublic is also the answer for a name that does not resolve, or else clients could find
// out which internal names exist.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errNotPublic = refusal("it leads to no public address")
	errPort      = refusal("it leads to a port other than 80 and 443")
	errScheme    = refusal("it leads to something other than http and https")
	errUser      = refusal("it has a user name in it")
	errNoHost    = refusal("it has no host")
	errRedirects = refusal("it redirects too often")
)

// checkURL refuses what the URL itself shows to be wrong. Ports and addresses are looked at when they are dialled.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errScheme
	case u.User != nil:
		return errUser
	case u.Hostname() == "":
		return errNoHost
	}
	return nil
}

// checkRedirect is asked before each redirect is followed.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	next.Header.Del("Referer") // the URL may hold what only its own host should know
	return checkURL(next.URL)
}

// checkAddress is asked by the dialer with the address that it is about to connect to, after names were resolved: a
// name that resolves differently the next time wins nothing.
func (f *Fetcher) checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.Join(errNotPublic, fmt.Errorf("address %q: %w", address, err))
	}
	switch {
	case f.opts.Permit != nil && f.opts.Permit(to):
		return nil
	case !isPublic(to.Addr()):
		return errNotPublic
	case to.Port() != 80 && to.Port() != 443:
		return errPort
	}
	return nil
}

// special are the blocks of the IANA registries of special-purpose addresses that netip has no word for, and addresses
// of clouds that lead to the host of the machine although they look public.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // carriers; 100.100.100.200: metadata of Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"), // host of Azure: wire server, metadata
	netip.MustParsePrefix("192.0.0.0/24"),     // 192.0.0.192: metadata of Oracle Cloud
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), // Teredo among others
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3") // all of IPv6 that is given out
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

// isPublic says whether an address belongs to the public internet. One that wraps an IPv4 address is as public as that.
func isPublic(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is6() {
		b := a.As16()
		switch {
		case nat64.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[12:16])))
		case sixToFour.Contains(a):
			return isPublic(netip.AddrFrom4([4]byte(b[2:6])))
		case !globalUnicast.Contains(a):
			return false
		case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe && !isPublic(netip.AddrFrom4([4]byte(b[12:16]))): // ISATAP
			return false
		}
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, block := range special {
		if block.Contains(a) {
			return false
		}
	}
	return true
}
