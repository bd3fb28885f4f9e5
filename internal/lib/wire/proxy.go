package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/netguard"
	"perigee/internal/lib/redact"
)

// NoProxy is the setting for connections that use no proxy, regardless of the environment.
const NoProxy = "none"

// NewProxyTransport is NewTransport through the proxy at an address: http, https or socks5, with a
// user and password if it has any. Empty means the proxy of the environment (HTTPS_PROXY, NO_PROXY
// and so on), if there is one. Loopback addresses are never reached through a proxy. A SOCKS5 proxy
// resolves the names of hosts itself.
func NewProxyTransport(address perigee.Secret) (*Transport, error) {
	t := NewTransport()
	t.Configure(func(t *http.Transport) { t.OnProxyConnectResponse = refusedByProxy })
	switch address.Reveal() {
	case "":
		return t, nil
	case NoProxy:
		t.Configure(func(t *http.Transport) { t.Proxy = nil })
		return t, nil
	}
	proxy, err := url.Parse(address.Reveal())
	if err != nil {
		// The cause would repeat the address, with the password in it.
		return nil, fmt.Errorf("the address of the proxy cannot be read")
	}
	t.Configure(func(t *http.Transport) {
		t.Proxy = func(req *http.Request) (*url.URL, error) {
			if netguard.IsLoopback(req.URL.Hostname()) {
				return nil, nil
			}
			return proxy, nil
		}
	})
	return t, nil
}

// maxPhrase limits the reason of a proxy's refusal, which is free text of its own.
const maxPhrase = 100

// errProxyRefused is the cause of errors about a proxy that does not connect.
var errProxyRefused = errors.New("does not connect")

// refusedByProxy returns the error for a proxy that does not connect, with its reason in quotes and
// without the credentials that it was sent, which some proxies repeat.
func refusedByProxy(_ context.Context, proxy *url.URL, sent *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	refusal := fmt.Errorf("the proxy at %s %w: %d %s", proxy.Host, errProxyRefused, answer.StatusCode, http.StatusText(answer.StatusCode))
	phrase := strings.TrimSpace(strings.TrimPrefix(answer.Status, strconv.Itoa(answer.StatusCode)))
	if phrase == "" || phrase == http.StatusText(answer.StatusCode) {
		return refusal
	}
	_, encoded, _ := strings.Cut(sent.Header.Get("Proxy-Authorization"), " ")
	password, _ := proxy.User.Password()
	phrase = redact.New(perigee.NewSecret(encoded), perigee.NewSecret(password)).Text(phrase)
	return fmt.Errorf("%w (%q)", refusal, perigee.Clip(phrase, maxPhrase))
}
