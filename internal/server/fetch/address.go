package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"perigee/internal/lib/netguard"
)

// A refusal is the error for a URL or an address that must not be reached. Its text goes to the
// client, so it reveals nothing about the address of a name: errNotPublic is also the error for a
// name that does not resolve, because clients could otherwise find out which internal names exist.
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

// checkURL refuses URLs that are invalid in themselves. Ports and addresses are checked when they
// are dialed.
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

// checkRedirect is called before each redirect is followed.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirects
	}
	next.Header.Del("Referer") // the URL may contain secrets of its own host
	return checkURL(next.URL)
}

// checkAddress is called by the dialer with the address that it is about to connect to, after names
// were resolved, so a name that resolves differently the next time is checked again.
func (f *Fetcher) checkAddress(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.Join(errNotPublic, fmt.Errorf("address %q: %w", address, err))
	}
	switch {
	case f.opts.Permit != nil && f.opts.Permit(to):
		return nil
	case !netguard.IsPublic(to.Addr()):
		return errNotPublic
	case to.Port() != 80 && to.Port() != 443:
		return errPort
	}
	return nil
}
