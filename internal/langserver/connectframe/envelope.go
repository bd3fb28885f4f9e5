package connectframe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

const (
	flagCompressed = 0x01
	flagEnd        = 0x02

	// bareFrom is the lowest first byte of a body without an envelope. The flags of an envelope
	// are below it. A Protobuf message starts with a tag, which has a field number of at least 1;
	// JSON, gzip and zstd start with higher bytes, too.
	bareFrom = 0x08

	prefixSize = 5
)

// Frame appends an envelope with the message to dst: the flags, the length in four bytes, the
// message.
func Frame(dst []byte, flags byte, message []byte) []byte {
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(message)))
	return append(dst, message...)
}

// EndFrame returns the last frame of a stream: {}, or the error with its details and metadata.
func EndFrame(err error) []byte {
	if err == nil {
		return Frame(nil, flagEnd, []byte("{}"))
	}
	var a answer
	r := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {streamType + "proto"}}}
	if err := errorWriter.Write(&a, r, err); err != nil {
		return Frame(nil, flagEnd, []byte(`{"error":{"code":"internal"}}`))
	}
	return a.body.Bytes()
}

var errorWriter = connect.NewErrorWriter()

// envelopes passes on a body that consists of envelopes, and fails where one is malformed, cut off,
// or larger than limit.
type envelopes struct {
	source io.Reader
	limit  int64

	prefix [prefixSize]byte
	have   int   // bytes of the prefix that were read
	size   int64 // of the message
	left   int64 // bytes of the message that were not read yet
	failed error
}

func (e *envelopes) Read(p []byte) (int, error) {
	if e.failed != nil {
		return 0, e.failed
	}
	n, err := e.source.Read(p)
	n, e.failed = e.follow(p[:n])
	if e.failed == nil && errors.Is(err, io.EOF) {
		switch {
		case e.left > 0:
			e.failed = invalid("the envelope announces %d bytes, and %d of them are missing: its length must be that of the message",
				e.size, e.left)
		case e.have > 0:
			e.failed = invalid("the body ends within the first %d bytes of an envelope", prefixSize)
		}
	}
	if e.failed != nil {
		return n, e.failed
	}
	return n, err
}

// follow returns how many of the bytes are part of well-formed envelopes.
func (e *envelopes) follow(data []byte) (int, error) {
	for i := 0; i < len(data); {
		if e.left > 0 {
			step := min(e.left, int64(len(data)-i))
			e.left -= step
			i += int(step)
			continue
		}
		if e.have == 0 && data[i] >= bareFrom {
			return i, invalid("no envelope begins with byte 0x%02x: the length before it must be that of the message", data[i])
		}
		e.prefix[e.have] = data[i]
		i++
		if e.have++; e.have < prefixSize {
			continue
		}
		e.have = 0
		e.size = int64(binary.BigEndian.Uint32(e.prefix[1:]))
		if e.left = e.size; e.size > e.limit {
			return i, tooLarge(e.source, e.limit)
		}
	}
	return len(data), nil
}

// readMessage reads a body that consists of one envelope, and returns its message without
// compression.
func readMessage(body io.Reader, encoding string, limit int64) ([]byte, error) {
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		return nil, readFailed(err)
	}
	message, err := readAll(io.LimitReader(body, int64(binary.BigEndian.Uint32(prefix[1:]))), limit)
	if err != nil {
		return nil, err
	}
	more, err := io.ReadFull(body, make([]byte, 1))
	switch {
	case more > 0:
		return nil, invalid("the body has more than one envelope, and the method takes one message")
	case !errors.Is(err, io.EOF):
		return nil, readFailed(err)
	}
	switch {
	case prefix[0] == 0:
		return message, nil
	case prefix[0] != flagCompressed:
		return nil, invalid("a request has no envelope with flags 0x%02x", prefix[0])
	case len(message) == 0:
		return message, nil
	case encoding == "":
		return nil, invalid("the message is compressed: name the encoding in Connect-Content-Encoding")
	}
	return decompress(encoding, message, limit)
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// tooLarge reads up to limit bytes more, so that most clients have sent their request before they
// get the error.
func tooLarge(source io.Reader, limit int64) error {
	_, _ = io.CopyN(io.Discard, source, limit)
	return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the message is larger than %d bytes", limit))
}

// readFailed adds a code to errors of the connection.
func readFailed(err error) error {
	if coded := (*connect.Error)(nil); errors.As(err, &coded) {
		return err
	}
	return connect.NewError(connect.CodeUnknown, fmt.Errorf("read the request: %w", err))
}

// readAll reads a message of at most limit bytes.
func readAll(source io.Reader, limit int64) ([]byte, error) {
	message, err := io.ReadAll(io.LimitReader(source, limit+1))
	if err != nil {
		return nil, readFailed(err)
	}
	if int64(len(message)) > limit {
		return nil, tooLarge(source, limit)
	}
	return message, nil
}
