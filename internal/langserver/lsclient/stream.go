package lsclient

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"

	"perigee"
)

const (
	flagCompressed = 1
	flagEnd        = 2
)

// Updates returns the states of a conversation: first the current one, then changes. The sequence
// ends when the language server ends the stream, as some versions do after each turn; with an
// error when it breaks off or is silent for three minutes. The caller subscribes again and reads
// the steps, because changes in between are not in any update. Each call has its own subscription.
func (c *Client) Updates(ctx context.Context, cascade string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) {
		const method = "StreamAgentStateUpdates"
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		body, from, err := c.open(ctx, method, object{"conversationId": cascade, "subscriberId": "perigee-" + NewID()})
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = body.Close() }()
		silence := time.AfterFunc(c.limits.idle, func() { cancel(errSilent) })
		defer silence.Stop()
		for {
			frame, err := readFrame(body, c.limits.answer)
			silence.Reset(c.limits.idle)
			var update jetskicortexpb.StreamAgentStateUpdatesResponse
			if err == nil {
				err = frame.message(from, &update)
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil && context.Cause(ctx) == errSilent:
				yield(nil, perigee.Errorf(perigee.ClassUnavailable, "the stream of updates was silent for %s", c.limits.idle))
				return
			case err != nil:
				yield(nil, asError(ctx, method, err))
				return
			}
			if update.Update == nil {
				continue
			}
			if !yield(update.Update, nil) {
				return
			}
		}
	}
}

var errSilent = errors.New("the stream is silent")

// open calls a method that answers with a stream. The caller closes the body.
func (c *Client) open(ctx context.Context, method string, request object) (body io.ReadCloser, from Endpoint, err error) {
	message, err := json.Marshal(request)
	if err != nil {
		return nil, from, perigee.Errorf(perigee.ClassInternal, "%s: %w", method, err)
	}
	envelope := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	err = c.attempts(ctx, method, func(endpoint Endpoint) error {
		r, err := c.post(ctx, endpoint, method, "application/connect+json", envelope)
		if err != nil {
			return err
		}
		if r.StatusCode == http.StatusOK && strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+json") {
			body, from = r.Body, endpoint
			return nil
		}
		defer func() { _ = r.Body.Close() }()
		if _, err := c.readAnswer(endpoint, r); err != nil {
			return err
		}
		return perigee.Errorf(perigee.ClassUnavailable, "the language server answered %s without a stream", method)
	})
	if err != nil {
		return nil, from, asError(ctx, method, err)
	}
	return body, from, nil
}

// A frame is one message of a stream, or its end.
type frame struct {
	flags byte
	data  []byte
}

// readFrame reads a frame. The end of the body before an end frame is an error.
func readFrame(r io.Reader, limit int64) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, fmt.Errorf("%w: the stream broke off: %w", ErrUnclear, unexpected(err))
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > limit {
		return frame{}, perigee.Errorf(perigee.ClassUnavailable, "the language server sent a frame of %d bytes", size)
	}
	var data bytes.Buffer
	if n, err := io.CopyN(&data, r, size); err != nil {
		return frame{}, fmt.Errorf("%w: the stream broke off after %d of %d bytes of a frame: %w", ErrUnclear, n, size, unexpected(err))
	}
	f := frame{head[0], data.Bytes()}
	if f.flags&flagCompressed == 0 || size == 0 {
		return f, nil
	}
	unzipped, err := gzip.NewReader(&data)
	if err != nil {
		return frame{}, perigee.Errorf(perigee.ClassUnavailable, "the language server compressed a frame: %w", unexpected(err))
	}
	f.data, err = io.ReadAll(io.LimitReader(unzipped, limit+1))
	if err != nil || int64(len(f.data)) > limit {
		return frame{}, perigee.Errorf(perigee.ClassUnavailable, "the language server compressed a frame that is broken or too large")
	}
	return f, nil
}

// unexpected returns io.ErrUnexpectedEOF for io.EOF, which is reserved for the regular end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// message decodes a message. The end of the stream is io.EOF or the error of the language server.
func (f frame) message(from Endpoint, into *jetskicortexpb.StreamAgentStateUpdatesResponse) error {
	if f.flags&flagEnd == 0 {
		if err := decode(f.data, into); err != nil {
			return perigee.Errorf(perigee.ClassUnavailable, "an update of the language server: %w", err)
		}
		return nil
	}
	var end struct {
		Error *wireError `json:"error"`
	}
	if err := lenient(f.data, &end); err != nil || end.Error == nil {
		return io.EOF
	}
	return end.Error.error(from, 0)
}
