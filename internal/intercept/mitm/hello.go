package mitm

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// maxHello bounds what is read of a connection to find the name of the server in its first message.
const maxHello = 64 << 10

var (
	errNotTLS    = errors.New("not a TLS handshake")
	errHelloSize = errors.New("the first message of the handshake is too long")
)

// readHello reads the ClientHello of a connection and returns the server name in it, in lower case; "": it has none. The bytes that
// were read are returned in any case, so that they can be passed on. An error of r is returned as it is, one of the format is
// errNotTLS or errHelloSize.
func readHello(r io.Reader) (name string, read []byte, err error) {
	buf := make([]byte, 0, 2048)
	more := func(want int) error { // reads until buf has so many bytes
		for len(buf) < want {
			if want > maxHello {
				return errHelloSize
			}
			if cap(buf) < want {
				buf = append(make([]byte, 0, max(want, 2*cap(buf))), buf...)
			}
			n, err := r.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
			if err != nil && len(buf) < want {
				return err
			}
		}
		return nil
	}
	var message []byte
	for at := 0; ; {
		if err := more(at + 1); err != nil {
			return "", buf, err
		}
		if buf[at] != 22 { // handshake
			return "", buf, errNotTLS
		}
		if err := more(at + 5); err != nil {
			return "", buf, err
		}
		size := int(binary.BigEndian.Uint16(buf[at+3:]))
		if buf[at+1] >= 0x10 || size == 0 || size > 16<<10 {
			return "", buf, errNotTLS
		}
		if err := more(at + 5 + size); err != nil {
			return "", buf, err
		}
		message = append(message, buf[at+5:at+5+size]...)
		at += 5 + size
		if message[0] != 1 { // client hello
			return "", buf, errNotTLS
		}
		if len(message) >= 4 {
			if length := 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3]); length > maxHello {
				return "", buf, errHelloSize
			} else if len(message) >= length {
				name, ok := serverName(message[4:length])
				if !ok {
					return "", buf, errNotTLS
				}
				return name, buf, nil
			}
		}
	}
}

// serverName finds the server name in the body of a ClientHello.
func serverName(hello []byte) (name string, ok bool) {
	b := cursor{rest: hello, ok: true}
	b.skip(2 + 32)          // version, random
	b.skip(int(b.uint8()))  // session
	b.skip(int(b.uint16())) // cipher suites
	b.skip(int(b.uint8()))  // compression methods
	if b.ok && len(b.rest) == 0 {
		return "", true // no extensions
	}
	extensions := b.sub(int(b.uint16()))
	for extensions.ok && len(extensions.rest) > 0 {
		kind := extensions.uint16()
		extension := extensions.sub(int(extensions.uint16()))
		if kind != 0 || name != "" { // server_name
			continue
		}
		names := extension.sub(int(extension.uint16()))
		for names.ok && len(names.rest) > 0 {
			kind := names.uint8()
			value := names.take(int(names.uint16()))
			if kind == 0 && name == "" {
				name = strings.ToLower(strings.TrimSuffix(string(value), "."))
			}
		}
		extensions.ok = extensions.ok && extension.ok && names.ok
	}
	return name, b.ok && extensions.ok && len(b.rest) == 0
}

// A cursor reads a message. After the first error it returns zeros, and ok is false.
type cursor struct {
	rest []byte
	ok   bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.rest) {
		c.ok, c.rest = false, nil
		return nil
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) uint8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// sub returns a cursor over the next n bytes.
func (c *cursor) sub(n int) *cursor {
	b := c.take(n)
	return &cursor{rest: b, ok: c.ok}
}
