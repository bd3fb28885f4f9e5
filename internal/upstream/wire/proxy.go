package wire

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"perigee"
	"perigee/internal/names"
)

// NoProxy is the setting for connections that go through no proxy, whatever the environment says.
const NoProxy = "none"

// NewProxyTransport is NewTransport through the proxy at an address: http, https or socks5, with a user and password if it has
// any. Empty: the proxy of the environment (HTTPS_PROXY, NO_PROXY and so on), if there is one. Loopback addresses are never
// reached through a proxy. A SOCKS5 proxy resolves the names of hosts itself.
func NewProxyTransport(address perigee.Secret) (*http.Transport, error) {
	t := NewTransport()
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		return fmt.Errorf("the proxy at %s does not connect: %s", proxy.Host, answer.Status)
	}
	switch address.Reveal() {
	case "":
		return t, nil
	case NoProxy:
		t.Proxy = nil
		return t, nil
	}
	proxy, err := url.Parse(address.Reveal())
	if err != nil {
		return nil, fmt.Errorf("the address of the proxy cannot be read") // which the cause would repeat, with the password in it
	}
	t.Proxy = func(req *http.Request) (*url.URL, error) {
		if names.IsLoopback(req.URL.Hostname()) {
			return nil, nil
		}
		return proxy, nil
	}
	return t, nil
}
