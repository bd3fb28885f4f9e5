package mitm

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// clientHello returns the first bytes of a TLS client.
func clientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	recorder := &recordConn{}
	_ = tls.Client(recorder, config).Handshake()
	if len(recorder.sent) == 0 {
		t.Fatal("the client has sent nothing")
	}
	return recorder.sent
}

// A recordConn keeps what is written, and has nothing to read.
type recordConn struct {
	net.Conn
	sent []byte
	read io.Reader
}

func (c *recordConn) Write(p []byte) (int, error) {
	c.sent = append(c.sent, p...)
	return len(p), nil
}

func (c *recordConn) Read(p []byte) (int, error) {
	if c.read == nil {
		return 0, io.EOF
	}
	return c.read.Read(p)
}

func (c *recordConn) Close() error                     { return nil }
func (c *recordConn) SetDeadline(time.Time) error      { return nil }
func (c *recordConn) SetWriteDeadline(time.Time) error { return nil }

// split cuts a message into records of a size.
func split(hello []byte, size int) (records []byte) {
	for message := hello[5:]; len(message) > 0; {
		n := min(size, len(message))
		records = append(records, hello[0], hello[1], hello[2])
		records = binary.BigEndian.AppendUint16(records, uint16(n))
		records = append(records, message[:n]...)
		message = message[n:]
	}
	return records
}

func TestReadHello(t *testing.T) {
	named := clientHello(t, &tls.Config{ServerName: "API.Example.org"})
	unnamed := clientHello(t, &tls.Config{InsecureSkipVerify: true})
	long := clientHello(t, &tls.Config{ServerName: "api.example.org", NextProtos: strings.Split(strings.Repeat(strings.Repeat("x", 200)+" ", 80)+"h2", " ")})
	tests := map[string]struct {
		sent []byte
		name string
		err  error
	}{
		"a name":              {sent: named, name: "api.example.org"},
		"more bytes after it": {sent: append(bytes.Clone(named), "early data"...), name: "api.example.org"},
		"no name":             {sent: unnamed},
		"long":                {sent: long, name: "api.example.org"},
		"many records":        {sent: split(named, 7), name: "api.example.org"},
		"HTTP":                {sent: []byte("GET / HTTP/1.1\r\n\r\n"), err: errNotTLS},
		"empty record":        {sent: []byte{22, 3, 1, 0, 0, 1}, err: errNotTLS},
		"record too long":     {sent: []byte{22, 3, 1, 0xff, 0xff, 1}, err: errNotTLS},
		"other message":       {sent: []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, err: errNotTLS},
		"message too long":    {sent: []byte{22, 3, 1, 0, 4, 1, 0xff, 0, 0}, err: errNotTLS},
		"broken extensions":   {sent: append([]byte{22, 3, 1, 0, 45, 1, 0, 0, 41}, make([]byte, 41)...), err: errNotTLS},
		"cut off":             {sent: named[:len(named)/2], err: io.EOF},
		"nothing":             {err: io.EOF},
	}
	for what, test := range tests {
		for _, reader := range []io.Reader{bytes.NewReader(test.sent), iotest.OneByteReader(bytes.NewReader(test.sent)), iotest.DataErrReader(bytes.NewReader(test.sent))} {
			name, read, err := readHello(reader)
			if name != test.name || !errors.Is(err, test.err) {
				t.Errorf("%s: %q %v", what, name, err)
			}
			if !bytes.HasPrefix(test.sent, read) || err == nil && len(read) < len(test.sent)/2 {
				t.Errorf("%s: %d bytes of %d", what, len(read), len(test.sent))
			}
		}
	}
}
