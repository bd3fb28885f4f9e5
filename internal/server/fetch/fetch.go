// Package fetch downloads the images and documents that messages refer to: an http or https URL is
// replaced by the data, because not every model can reach the web. It does so only if the
// configuration allows it.
//
// A URL in a message may come from any text that the client repeats, so it is not trusted: only
// public addresses are reached, and answers are bounded in time, size and type. It keeps nothing
// between requests. The HTTP server calls it, between decoding a request and asking the upstream.
package fetch

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
)

// Options are the limits of a Fetcher. The zero value allows nothing.
type Options struct {
	Allow     bool
	MaxBytes  int64         // of all media of one request together; 0 means 20 MiB
	Timeout   time.Duration // for each; 0 means 20 s
	UserAgent string        // empty means perigee
	Logger    *slog.Logger  // for the reasons of refusals; nil discards them

	// For tests. Resolver looks names up; Permit names addresses that are reached although they are
	// not public, at any port.
	Resolver *net.Resolver
	Permit   func(netip.AddrPort) bool
}

const (
	defaultBytes   = 20 << 20
	defaultTimeout = 20 * time.Second

	maxURLs      = 16 // in one request
	maxAtOnce    = 4
	maxRedirects = 3
)

// A Fetcher fetches. It is safe for concurrent use and keeps no connections, so it needs no Close.
type Fetcher struct {
	opts   Options
	client *http.Client
}

// New returns a Fetcher.
func New(opts Options) *Fetcher {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, defaultBytes)
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	opts.UserAgent = cmp.Or(opts.UserAgent, "perigee")
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	f := &Fetcher{opts: opts}
	dialer := &net.Dialer{Resolver: opts.Resolver, Control: f.checkAddress}
	f.client = &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy could reach private addresses
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return f
}

// Inline returns a prompt in which the files on the web are data, or p itself when there are none
// or nothing may be fetched. Files that the provider can reach by itself (its own files, videos on
// YouTube, gs: addresses) stay. p is not changed. Each URL is fetched once, however often it
// occurs. There is a note for each image with a wrong Content-Type. reserve is called for bytes
// that are about to be kept, by one goroutine at a time; its error ends the fetching and is
// returned. Other errors are of class invalid and name the host, except when ctx ended.
func (f *Fetcher) Inline(ctx context.Context, p *perigee.Prompt, reserve func(bytes int64) error) (*perigee.Prompt, []perigee.Note, error) {
	if !f.opts.Allow || p == nil {
		return p, nil, nil
	}
	addresses := remoteFiles(p)
	if len(addresses) == 0 {
		return p, nil, nil
	}
	if len(addresses) > maxURLs {
		return nil, nil, perigee.Errorf(perigee.ClassInvalid, "the request points at more than %d files on the web, which is how many are fetched", maxURLs).
			WithHint("send some of them as data, or leave old ones out")
	}
	media, err := f.fetchAll(ctx, addresses, &budget{limit: f.opts.MaxBytes, reserve: reserve})
	if err != nil {
		return nil, nil, err
	}
	var notes []perigee.Note
	for _, address := range addresses {
		if n := media[address].note; n != nil && !slices.Contains(notes, *n) {
			notes = append(notes, *n)
		}
	}
	return withMedia(p, media), notes, nil
}

// fetchAll fetches a few at a time. The first error cancels the rest.
func (f *Fetcher) fetchAll(ctx context.Context, addresses []string, room *budget) (map[string]*medium, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fetched := make([]*medium, len(addresses))
	places := make(chan struct{}, maxAtOnce)
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				return
			}
			var err error
			if fetched[i], err = f.fetch(ctx, address, room); err != nil {
				cancel(err) // of no effect when the caller has left already: then that is the cause
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	media := make(map[string]*medium, len(addresses))
	for i, address := range addresses {
		media[address] = fetched[i]
	}
	return media, nil
}

// remoteFiles returns the URLs to be fetched, each once, in the order of the prompt. The list ends
// with the first one beyond the limit.
func remoteFiles(p *perigee.Prompt) []string {
	var list []string
	var collect func(parts []perigee.Part)
	collect = func(parts []perigee.Part) {
		for i := range parts {
			if len(list) > maxURLs {
				return
			}
			if r := parts[i].Response; r != nil {
				collect(r.Media)
			}
			if part := &parts[i]; isRemote(part) && !slices.Contains(list, part.File.URI) {
				list = append(list, part.File.URI)
			}
		}
	}
	if p.System != nil {
		collect(p.System.Parts)
	}
	for i := range p.Contents {
		collect(p.Contents[i].Parts)
	}
	return list
}

// isRemote reports whether a part is a file on the web that the provider may not be able to reach
// itself.
func isRemote(part *perigee.Part) bool {
	if part.Kind != perigee.PartFile || part.File == nil {
		return false
	}
	scheme, _, ok := strings.Cut(part.File.URI, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return false
	}
	u, err := url.Parse(part.File.URI)
	return err != nil || !isProviders(u) // one that cannot be read is refused later
}

// youTube are the hosts of videos that the provider reads itself.
var youTube = []string{"youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be"}

// isProviders reports whether a URL is the provider's own.
func isProviders(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	if host == "generativelanguage.googleapis.com" && strings.Contains(u.Path, "/files/") {
		return true
	}
	return slices.Contains(youTube, host)
}

// withMedia returns a copy of p with data in place of files. What did not change is shared with p.
func withMedia(p *perigee.Prompt, media map[string]*medium) *perigee.Prompt {
	var inline func(part *perigee.Part) bool
	inline = func(part *perigee.Part) bool {
		if r := part.Response; r != nil && slices.ContainsFunc(r.Media, func(p perigee.Part) bool { return isRemote(&p) }) {
			response := *r
			response.Media = perigee.EditParts(r.Media, inline)
			part.Response = &response
		}
		if isRemote(part) {
			m := media[part.File.URI]
			part.Blob = &perigee.Blob{MIME: m.mime, Data: m.data, Extra: part.File.Extra}
			part.Kind, part.File = perigee.PartBlob, nil
		}
		return true
	}
	e := p.Edit()
	if p.System != nil {
		system := *p.System
		system.Parts = perigee.EditParts(system.Parts, inline)
		e.System = &system
	}
	for i := range p.Contents {
		e.Content(i).Parts = perigee.EditParts(p.Contents[i].Parts, inline)
	}
	return e.Prompt
}
