package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"perigee"
)

// A medium is something that was fetched.
type medium struct {
	mime string
	data string // base64
	note *perigee.Note
}

// A budget limits the bytes of all media of a request together.
type budget struct {
	limit   int64
	reserve func(bytes int64) error // in memory

	mu       sync.Mutex
	used     int64
	reserved int64
}

// reserveStep is how many bytes are reserved at once.
const reserveStep = 32 << 10

// take counts bytes that have arrived. Memory for them was reserved before, except for the few that
// one read brings.
func (b *budget) take(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used += bytes; b.used > b.limit {
		return errTooLarge
	}
	for b.used > b.reserved {
		if err := b.reserve(reserveStep); err != nil {
			return err
		}
		b.reserved += reserveStep
	}
	return nil
}

var (
	errTooLarge = errors.New("too large")
	errSlow     = errors.New("too slow")
)

// A meteredReader subtracts the bytes that it reads from a budget.
type meteredReader struct {
	io.Reader
	room *budget
}

func (m meteredReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if taken := m.room.take(int64(n)); taken != nil {
		return 0, taken
	}
	return n, err
}

// fetch gets one medium.
func (f *Fetcher) fetch(ctx context.Context, address string, room *budget) (*medium, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "a URL in the request cannot be read").WithHint("write it as https://host/path")
	}
	if err := checkURL(u); err != nil {
		return nil, f.clientError(ctx, u, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, errSlow)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, f.clientError(ctx, u, err)
	}
	req.Header.Set("User-Agent", f.opts.UserAgent)
	req.Header.Set("Accept", "image/*, audio/*, video/*, application/pdf, text/plain")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, f.clientError(ctx, u, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := checkHead(resp, room); err != nil {
		return nil, f.clientError(ctx, u, err)
	}
	m, err := read(resp, u, room)
	if err != nil {
		return nil, f.clientError(ctx, u, err)
	}
	return m, nil
}

func checkHead(resp *http.Response, room *budget) error {
	switch encoding := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode != http.StatusOK:
		return refusal(strings.TrimSpace(fmt.Sprintf("its server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))))
	// net/http decodes gzip and removes the header.
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return refusal("its server sends it in an encoding that was not requested")
	case resp.ContentLength > room.limit:
		return errTooLarge
	}
	return nil
}

// sniffed is how much of a medium http.DetectContentType looks at.
const sniffed = 512

// read reads the body and encodes it in base64 at the same time, so that there is only one copy.
func read(resp *http.Response, u *url.URL, room *budget) (*medium, error) {
	body := meteredReader{resp.Body, room}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(body, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	mime, err := mediaType(resp.Header.Get("Content-Type"), head)
	if err != nil {
		return nil, err
	}
	m := &medium{mime: mime.is}
	if mime.is != mime.declared && mime.declared != "" {
		m.note = &perigee.Note{Action: perigee.NoteRepaired, Subject: fmt.Sprintf("type of a file from %s: %s is %s", u.Hostname(), mime.declared, mime.is)}
	}
	var text strings.Builder
	encoder := base64.NewEncoder(base64.StdEncoding, &text)
	_, _ = encoder.Write(head) // into memory
	if _, err := io.Copy(encoder, body); err != nil {
		return nil, err
	}
	_ = encoder.Close()
	m.data = text.String()
	return m, nil
}

// clientError returns the error for the client, without details of the network. It names the host
// and never the rest of the URL, which may contain a token.
func (f *Fetcher) clientError(ctx context.Context, u *url.URL, err error) error {
	if errors.Is(err, perigee.ErrNoMemory) {
		return err
	}
	reason, next := "it could not be reached", "send the data itself"
	refused, wasRefused := errors.AsType[refusal](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	switch {
	case wasRefused:
		reason = refused.Error()
	case errors.Is(err, errTooLarge):
		reason = fmt.Sprintf("with it the files of this request are larger than %d bytes", f.opts.MaxBytes)
		next = "send fewer or smaller ones, or raise media.max"
	case errors.Is(context.Cause(ctx), errSlow):
		reason = fmt.Sprintf("it did not arrive within %s", f.opts.Timeout)
		next = "send the data itself, or raise media.timeout"
	case unknown:
		reason = errNotPublic.Error()
	}
	host := u.Hostname()
	if host == "" {
		host = "a URL"
	}
	if wasRefused || unknown {
		f.opts.Logger.InfoContext(ctx, "media not fetched", "host", perigee.Clip(host, 100), "reason", why(err, refused))
	}
	return &perigee.Error{
		Class: perigee.ClassInvalid, Message: fmt.Sprintf("the file at %s cannot be fetched: %s", host, reason), Hint: next, Cause: err,
	}
}

// why returns the reason of a refusal for the log: the address of the name, or why there is none.
func why(err error, refused refusal) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return "name lookup: " + e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Addr != nil {
		return refused.Error() + ": " + e.Addr.String()
	}
	return refused.Error()
}
