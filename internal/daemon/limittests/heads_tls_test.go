package limittests

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

// dialTLS opens a connection for a protocol of ALPN.
func dialTLS(t *testing.T, g *daemontest.Gateway, transport *http.Transport, protocol string) *tls.Conn {
	t.Helper()
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{protocol}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.URL(), "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(await.Limit)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// frame is an HTTP/2 frame without flags on stream 0.
func frame(kind byte, payload []byte) []byte { return streamFrame(kind, 0, 0, payload) }

func streamFrame(kind, flags, stream byte, payload []byte) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(append(head, flags, 0, 0, 0, stream), payload...)
}

// fields are headers in HPACK, as literals.
func fields(pairs ...string) (block []byte) {
	for i := 0; i < len(pairs); i += 2 {
		block = append(append(block, 0, byte(len(pairs[i]))), pairs[i]...)
		block = append(append(block, byte(len(pairs[i+1]))), pairs[i+1]...)
	}
	return block
}

const (
	dataFrame     = 0
	headersFrame  = 1
	resetFrame    = 3
	settingsFrame = 4
	pingFrame     = 6
	unknownFrame  = 0xfe
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// Flags of frames.
const (
	endStream  = 1
	endHeaders = 4
)

// readFrame returns the kind of the next frame, and its flags.
func readFrame(r io.Reader) (kind, flags byte, err error) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, 0, err
	}
	_, err = io.CopyN(io.Discard, r, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
	return head[3], head[4], err
}

// idleHTTP2 opens an HTTP/2 connection and sends so many bytes of frames that servers ignore, all
// of which have been read.
func idleHTTP2(t *testing.T, g *daemontest.Gateway, transport *http.Transport, size int) io.Reader {
	t.Helper()
	conn := dialTLS(t, g, transport, "h2")
	reader := bufio.NewReader(conn)
	write := func(p []byte) {
		if _, err := conn.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	ping := func() {
		write(frame(pingFrame, make([]byte, 8)))
		for kind := byte(0); kind != pingFrame; {
			var err error
			if kind, _, err = readFrame(reader); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(append([]byte(preface), frame(settingsFrame, nil)...))
	ping() // the connection is idle
	for piece := make([]byte, 16<<10-9); size > 0; size -= 16 << 10 {
		write(frame(unknownFrame, piece))
	}
	ping()
	return reader
}

// Whatever an idle HTTP/2 connection has sent takes nothing from the heads of other clients.
func TestHeadsBesideIdleHTTP2(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	dir := newCertDir(t)
	transport := dir.issue("perigee")
	g, _, _ := daemontest.Follow(t, daemontest.NewStage(t).Config("limits: {memory: 64MiB}\n"+dir.config())) // 2 MiB for heads
	idle := idleHTTP2(t, g, transport, 2<<20-16<<10)
	conn := dialTLS(t, g, transport, "http/1.1")
	reader := bufio.NewReader(conn)
	for range 3 {
		if _, err := io.WriteString(conn, halfHead+strings.Repeat("x", 60<<10)+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if resp, body := readRaw(t, reader); resp.StatusCode != http.StatusOK {
			t.Fatalf("a large head beside an idle HTTP/2 connection got %d %s", resp.StatusCode, body)
		}
	}
	for {
		if _, _, err := readFrame(idle); err != nil {
			break // it was closed
		}
	}
}

// A refusal reaches the client through TLS, too.
func TestHeadsAreRefusedThroughTLS(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	dir := newCertDir(t)
	transport := dir.issue("perigee")
	g, _, _ := daemontest.Follow(t, daemontest.NewStage(t).Config("limits: {memory: 64MiB}\n"+dir.config()))
	refused := make(chan string, 60)
	for range cap(refused) { // 36 of 56 KiB fit
		conn := dialTLS(t, g, transport, "http/1.1")
		go func() {
			_, _ = io.WriteString(conn, halfHead+strings.Repeat("x", 60<<10)) // the gateway may close the connection meanwhile
			answer, _ := io.ReadAll(conn)
			refused <- string(answer)
		}()
	}
	answer := await.Receive(t, refused, "a connection to be refused")
	if !strings.HasPrefix(answer, "HTTP/1.1 503 ") || !strings.Contains(answer, "X-Perigee-Class: capacity") || strings.Contains(answer, "400 Bad Request") {
		t.Errorf("refused with %q", answer)
	}
}

// A stream whose request is refused before its body was sent is not reset while the client sends
// it: curl would drop the answer.
func TestTLSRefusalIsReadBesideABody(t *testing.T) {
	t.Parallel()
	dir := newCertDir(t)
	transport := dir.issue("perigee")
	g, _, _ := daemontest.Follow(t, daemontest.NewStage(t).Config("keys: [{name: ada, secret: secret-of-ada}]\n"+dir.config()))
	conn := dialTLS(t, g, transport, "h2")
	reader := bufio.NewReader(conn)
	write := func(p []byte) {
		if _, err := conn.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	// until reads frames to one of a kind that has the flag.
	until := func(kind, flag byte) {
		for {
			k, flags, err := readFrame(reader)
			switch {
			case err != nil:
				t.Fatal(err)
			case k == resetFrame:
				t.Fatal("the stream was reset")
			case k == kind && flags&flag == flag:
				return
			}
		}
	}
	write(append([]byte(preface), frame(settingsFrame, nil)...))
	write(streamFrame(headersFrame, endHeaders, 1, fields(":method", "POST", ":scheme", "https", ":authority", "127.0.0.1",
		":path", "/v1/chat/completions", "authorization", "Bearer wrong", "content-length", "32000")))
	until(dataFrame, 0) // the answer
	write(streamFrame(dataFrame, 0, 1, make([]byte, 16000)))
	write(streamFrame(dataFrame, endStream, 1, make([]byte, 16000)))
	until(dataFrame, endStream)
	write(frame(pingFrame, make([]byte, 8)))
	until(pingFrame, 0)
}
