package cloud

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
)

// maxBody is the maximum size of a body that is read, both compressed and decompressed. The
// language server sends several megabytes at most.
const maxBody = 64 << 20

// Reasons why a body cannot be read. It can still be forwarded.
var (
	errTooLarge   = errors.New("the request is larger than 64 MiB")
	errEncoding   = errors.New("the request is compressed in a way that perigee does not read")
	errCompressed = errors.New("the request could not be decompressed")
	errBrokeOff   = errors.New("the request broke off")
)

// readBody reads the body of a request, and restores it, so that the same bytes can still be
// forwarded. With an error the text is the part that could be read.
func readBody(r *http.Request) (text []byte, err error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	rest := r.Body
	unread := io.Reader(rest)
	if err != nil {
		unread = brokenReader{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(raw), unread), rest}
	if err != nil {
		return raw, fmt.Errorf("%w: %w", errBrokeOff, err)
	}
	if len(raw) > maxBody {
		return raw, errTooLarge
	}
	decoder, err := NewDecoder(r.Header.Get("Content-Encoding"), bytes.NewReader(raw))
	if decoder == nil || err != nil {
		return raw, err
	}
	text, err = io.ReadAll(io.LimitReader(decoder, maxBody+1))
	if len(text) > maxBody {
		return text[:maxBody], errTooLarge
	}
	if err != nil {
		return text, fmt.Errorf("%w: %w", errCompressed, err)
	}
	return text, nil
}

// A brokenReader returns the error of a body that broke off.
type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// isJSON reports whether a request has a JSON body.
func isJSON(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/json"
}

// setBody replaces the body of a request by one that is not compressed.
func setBody(r *http.Request, body []byte) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = open() // cannot fail
	r.GetBody, r.ContentLength, r.TransferEncoding = open, int64(len(body)), nil
	r.Header = r.Header.Clone() // the header of the caller is not changed
	r.Header.Del("Content-Encoding")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// NewDecoder returns a reader that decompresses, or nil if the encoding is the identity. It reads
// nothing before its first Read.
func NewDecoder(encoding string, src io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
		return &gzipReader{src: src}, nil
	case "br":
		return brotli.NewReader(src), nil
	}
	return nil, errEncoding
}

// A gzipReader reads the gzip header on the first Read.
type gzipReader struct {
	src     io.Reader
	decoder *gzip.Reader
}

func (r *gzipReader) Read(p []byte) (int, error) {
	if r.decoder == nil {
		decoder, err := gzip.NewReader(r.src)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // an empty body is not a complete gzip stream
		}
		if err != nil {
			return 0, err
		}
		r.decoder = decoder
	}
	return r.decoder.Read(p)
}
