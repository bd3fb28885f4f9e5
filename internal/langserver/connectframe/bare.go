// Package connectframe lets handlers of connect-go accept requests that are outside the Connect
// protocol: messages of streaming methods without an envelope, and calls of unary methods in the
// form of streams. Both are middleware; answers always have the framing that the request asked for.
// Everything that the protocol allows is passed on unchanged.
package connectframe

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// streamType is the media type of streaming requests, before the name of the codec.
const streamType = "application/connect+"

// AcceptBare accepts bodies without an envelope in POST requests of type application/connect+proto
// and application/connect+json. The first byte distinguishes the two forms without ambiguity: a
// body with an envelope is passed on unchanged while it arrives. A body without one is one
// message, and gets an envelope; if its Content-Encoding is gzip, it is decompressed first. An
// empty body is an empty message, so the streaming methods of next must take exactly one.
//
// Reading the body fails with invalid_argument if an envelope does not have the announced length,
// and with resource_exhausted if a message is larger than limit; connect-go answers with these
// errors. Messages that are compressed inside their envelope, and messages of unary requests, are
// not checked: connect.WithReadMaxBytes limits them.
func AcceptBare(next http.Handler, limit int64) http.Handler {
	return acceptBare(next, limit, true)
}

func acceptBare(next http.Handler, limit int64, emptyIsMessage bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if streamCodec(r) != "" {
			body := newBody(r, limit, emptyIsMessage)
			r = r.WithContext(r.Context()) // a shallow copy
			r.Body, r.ContentLength = body, -1
			if r.Header.Get("Content-Encoding") != "" {
				r.Header = r.Header.Clone()
				r.Header.Del("Content-Encoding")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// streamCodec returns the codec of a request in streaming form, "proto" or "json", and "" for other
// requests.
func streamCodec(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	mediaType := r.Header.Get("Content-Type")
	if strings.Contains(mediaType, ";") {
		mediaType, _, _ = mime.ParseMediaType(mediaType)
	}
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case streamType + "proto":
		return "proto"
	case streamType + "json":
		return "json"
	}
	return ""
}

// A body consists of envelopes, even if its source has none. The source is not read before the body
// is, so that a handler can answer before the first message arrives.
type body struct {
	source          io.ReadCloser
	length          int64  // of the source, -1 if unknown
	encoding        string // of the source, "" if none
	messageEncoding string // of messages in envelopes
	limit           int64
	emptyIsMessage  bool

	envelopes io.Reader // nil before the first byte of source was read
}

func newBody(r *http.Request, limit int64, emptyIsMessage bool) *body {
	return &body{
		source:          r.Body,
		length:          r.ContentLength,
		encoding:        encodingName(r.Header, "Content-Encoding"),
		messageEncoding: encodingName(r.Header, "Connect-Content-Encoding"),
		limit:           min(limit, math.MaxUint32),
		emptyIsMessage:  emptyIsMessage,
	}
}

func encodingName(header http.Header, name string) string {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(header.Values(name), ",")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.envelopes == nil {
		b.envelopes = b.open()
	}
	return b.envelopes.Read(p)
}

func (b *body) Close() error { return b.source.Close() }

func (b *body) open() io.Reader {
	first := make([]byte, 1)
	switch _, err := io.ReadFull(b.source, first); {
	case errors.Is(err, io.EOF):
		return b.enveloped(nil)
	case err != nil:
		return failure{err}
	}
	source := io.MultiReader(bytes.NewReader(first), b.source)
	if first[0] < bareFrom {
		return &envelopes{source: source, limit: b.limit}
	}
	encoding := b.encoding
	if encoding == "" && first[0] == gzipMagic {
		encoding = b.messageEncoding // compressed as in an envelope, and without one
	}
	if encoding == "" && b.length >= 0 {
		return b.announced(source)
	}
	message, err := readAll(source, b.limit)
	if err == nil && encoding != "" {
		message, err = decompress(encoding, message, b.limit)
	}
	if err != nil {
		return failure{err}
	}
	return b.enveloped(message)
}

// announced returns a reader of one message with a length that is known before the message has
// arrived.
func (b *body) announced(source io.Reader) io.Reader {
	if b.length > b.limit {
		return failure{tooLarge(source, b.limit)}
	}
	prefix := make([]byte, prefixSize)
	binary.BigEndian.PutUint32(prefix[1:], uint32(b.length))
	return io.MultiReader(bytes.NewReader(prefix), source)
}

// enveloped returns a complete body as envelopes: none, the given ones, or one for a bare message.
func (b *body) enveloped(data []byte) io.Reader {
	switch {
	case len(data) == 0 && !b.emptyIsMessage:
		return failure{io.EOF}
	case len(data) > 0 && data[0] < bareFrom:
		return &envelopes{source: bytes.NewReader(data), limit: b.limit}
	}
	return bytes.NewReader(Frame(nil, 0, data))
}

// failure is a reader that fails.
type failure struct{ error }

func (f failure) Read([]byte) (int, error) { return 0, f.error }

const gzipMagic = 0x1f

// decompress returns at most limit bytes.
func decompress(encoding string, data []byte, limit int64) ([]byte, error) {
	if encoding != "gzip" && encoding != "x-gzip" {
		return nil, connect.NewError(connect.CodeUnimplemented,
			fmt.Errorf("the encoding %q is not supported: use gzip or none", encoding))
	}
	source, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, invalid("the message is not compressed with gzip, as the header says: %w", err)
	}
	message, err := io.ReadAll(io.LimitReader(source, limit+1))
	if err != nil {
		return nil, invalid("decompress the message: %w", err)
	}
	if int64(len(message)) > limit {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("the decompressed message is larger than %d bytes", limit))
	}
	return message, nil
}
