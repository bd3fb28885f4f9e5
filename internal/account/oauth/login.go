package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"perigee"
)

// LoginOptions control how a person signs in.
type LoginOptions struct {
	Client  *Client
	Port    int           // of the callback; the next free one if it is in use; 0 for any
	Email   string        // the account to offer first; may be empty
	Timeout time.Duration // how long the person may take; 5 minutes if 0
}

// A Login is a sign-in that waits for a person. There are two ways for the answer to come back,
// open at the same time: the browser's callback to a loopback port, and pasting the address that
// the browser ended on, for browsers that are on another machine.
type Login struct {
	URL         string   // the page to open in a browser
	RedirectURI string   // where the browser ends
	Identity    Identity // the OAuth client that the person signs in with

	opts     LoginOptions
	state    string
	verifier string
	server   *http.Server
	serving  sync.WaitGroup
	attempts chan attempt
	over     chan struct{} // closed by Close
	close    sync.Once
}

// SignedIn is the account that signed in.
type SignedIn struct {
	Email string
	Grant Grant
}

// An attempt is an answer that came back, by whichever way.
type attempt struct {
	pasted
	byHand bool
	result chan<- error // receives the result of the attempt
}

// StartLogin opens the callback. The caller must call Wait or Close. ctx bounds only the start,
// which may have to search for the OAuth client.
func StartLogin(ctx context.Context, opts LoginOptions) (*Login, error) {
	opts.Timeout = cmp.Or(opts.Timeout, 5*time.Minute)
	identity, err := opts.Client.Identity(ctx)
	if err != nil {
		return nil, err
	}
	listeners, port, err := listen(opts.Port)
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "no port for the callback of the sign-in: %w", err).
			WithHint("free a port on both 127.0.0.1 and ::1, or set oauth.redirect_port to one that is free")
	}
	l := &Login{
		RedirectURI: "http://localhost:" + strconv.Itoa(port) + callbackPath,
		Identity:    identity,
		opts:        opts,
		state:       rand.Text(),
		verifier:    rand.Text() + rand.Text(), // a verifier has at least 43 characters
		attempts:    make(chan attempt),
		over:        make(chan struct{}),
	}
	if l.URL, err = l.consentURL(); err != nil {
		for _, listener := range listeners {
			_ = listener.Close()
		}
		return nil, err
	}
	l.server = &http.Server{Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	l.server.SetKeepAlivesEnabled(false)
	for _, listener := range listeners {
		l.serving.Go(func() { _ = l.server.Serve(listener) }) // ends with Close
	}
	return l, nil
}

// consentURL returns the page where a person consents. It asks for a refresh token even if they
// have consented before: the provider gives one only with the consent.
func (l *Login) consentURL() (string, error) {
	address := l.opts.Client.opts.AuthURL
	page, err := url.Parse(address)
	if err != nil || page.Host == "" {
		return "", misconfigured("auth_url is %q, which is not a URL", address)
	}
	challenge := sha256.Sum256([]byte(l.verifier))
	query := page.Query()
	for name, value := range map[string]string{
		"response_type": "code", "access_type": "offline", "prompt": "consent",
		"client_id": l.Identity.ID, "redirect_uri": l.RedirectURI, "scope": strings.Join(scopes, " "), "state": l.state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	if l.opts.Email != "" {
		query.Set("login_hint", l.opts.Email)
	}
	page.RawQuery = query.Encode()
	return page.String(), nil
}

// morePorts is how many ports after the configured one are tried before any will do.
const morePorts = 10

// anyTries is how often a port of the system's choice is tried: it may be free on one loopback
// address only.
const anyTries = 20

// listen listens on the same port of both loopback addresses: browsers differ in which of the two
// they resolve localhost to, and a program that had the port of the other one would get the answer.
func listen(port int) (listeners []net.Listener, taken int, err error) {
	families := loopbacks()
	for p := port; p != 0 && p < port+morePorts && p <= 65535; p++ {
		if listeners, err = listenOn(families, p); err == nil {
			return listeners, p, nil
		}
	}
	for range anyTries {
		if listeners, err = listenOn(families, 0); err == nil {
			return listeners, listeners[0].Addr().(*net.TCPAddr).Port, nil
		}
	}
	return nil, 0, err
}

// loopbacks returns the loopback addresses that this machine has.
func loopbacks() (families [][2]string) {
	for _, family := range [][2]string{{"tcp4", "127.0.0.1"}, {"tcp6", "::1"}} {
		if probe, err := net.Listen(family[0], net.JoinHostPort(family[1], "0")); err == nil {
			_ = probe.Close()
			families = append(families, family)
		}
	}
	if len(families) == 0 {
		families = [][2]string{{"tcp4", "127.0.0.1"}} // if IPv4 fails, too, its error is returned
	}
	return families
}

// listenOn listens on the same port of all addresses, or on none. Port 0 is one that the first of
// them has free.
func listenOn(families [][2]string, port int) (listeners []net.Listener, err error) {
	for _, family := range families {
		l, err := net.Listen(family[0], net.JoinHostPort(family[1], strconv.Itoa(port)))
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
			return nil, err
		}
		listeners, port = append(listeners, l), l.Addr().(*net.TCPAddr).Port
	}
	return listeners, nil
}

// Wait returns the account that signed in. It ends when ctx does, when the time is up, when the
// person declines, or when the provider does not take the answer; a pasted code that is not good is
// the error of Paste, and another can be pasted. The callback is closed when it returns.
func (l *Login) Wait(ctx context.Context) (SignedIn, error) {
	defer l.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, l.opts.Timeout, errTimeUp)
	defer cancel()
	for {
		select {
		case a := <-l.attempts:
			who, err := l.redeem(ctx, a)
			a.result <- err
			if err == nil || !a.byHand || !pasteAgain(err) {
				return who, err
			}
		case <-l.over:
			return SignedIn{}, errOver
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errTimeUp) {
				return SignedIn{}, ctx.Err()
			}
			return SignedIn{}, perigee.Errorf(perigee.ClassUnavailable, "no sign-in within %v", l.opts.Timeout).
				WithHint("run `perigee login` again; if the browser ends on a page that cannot be reached, paste its address")
		}
	}
}

var (
	errTimeUp = errors.New("the time is up")
	errOver   = perigee.Errorf(perigee.ClassUnavailable, "the sign-in is over").WithHint("run `perigee login` again")
)

// pasteAgain reports whether another code may do. One that was given for another callback looks
// like a wrong OAuth client.
func pasteAgain(err error) bool {
	class := perigee.AsError(err).Class
	return class == perigee.ClassUnauthenticated || class == perigee.ClassIdentity
}

// redeem turns an answer into a sign-in.
func (l *Login) redeem(ctx context.Context, a attempt) (SignedIn, error) {
	if a.denied != "" {
		return SignedIn{}, perigee.Errorf(perigee.ClassForbidden, "the sign-in was declined (%s)", a.denied).
			WithHint("run `perigee login` again and allow what the page asks for")
	}
	grant, err := l.opts.Client.exchange(ctx, a.code, l.verifier, l.RedirectURI)
	if err != nil {
		return SignedIn{}, err
	}
	email, err := l.opts.Client.Email(ctx, grant.Access)
	if err != nil {
		return SignedIn{}, fmt.Errorf("find out which account signed in: %w", err)
	}
	return SignedIn{Email: email, Grant: grant}, nil
}

// Paste accepts the text that a person pasted: the address that the browser ended on, or only the
// code. It returns when the result is known. After an error of perigee.ClassInvalid,
// ClassUnauthenticated or ClassIdentity another text can be pasted.
func (l *Login) Paste(ctx context.Context, text string) error {
	p, err := parsePasted(text)
	if err != nil {
		return err
	}
	// A code without a state was carried by hand, and is bound to this sign-in by its verifier.
	if p.state != "" && !l.isOurs(p.state) {
		return perigee.Errorf(perigee.ClassInvalid, "that address belongs to another sign-in").
			WithHint("open the link of this one, and paste the address that the browser ends on")
	}
	return l.try(ctx, attempt{pasted: p, byHand: true})
}

func (l *Login) isOurs(state string) bool {
	return subtle.ConstantTimeCompare([]byte(state), []byte(l.state)) == 1
}

// try hands an answer to Wait and returns its result.
func (l *Login) try(ctx context.Context, a attempt) error {
	result := make(chan error, 1)
	a.result = result
	select {
	case l.attempts <- a:
	case <-l.over:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-result // Wait sends a result for each attempt that it receives
}

// closeTime is how long the page with the result may take to reach the browser.
const closeTime = 2 * time.Second

// Close ends the sign-in and frees its port.
func (l *Login) Close() {
	l.close.Do(func() {
		close(l.over)
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if l.server.Shutdown(ctx) != nil {
			_ = l.server.Close()
		}
	})
	l.serving.Wait()
}
