package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"perigee/internal/server"
)

// After a request in chunks the connection is closed, since it may have had a Content-Length too,
// and stays open otherwise.
func TestConnectionsAreClosedAfterChunks(t *testing.T) {
	server := httptest.NewServer(server.New(server.Options{Upstream: answering{}}, server.Settings{MaxBody: 1 << 20}))
	defer server.Close()
	for name, test := range map[string]struct {
		head, body string
		closed     bool
	}{
		"length":            {"Content-Length: 2\r\n", "{}", false},
		"chunks":            {"Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", true},
		"length and chunks": {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprintf(conn, "POST /api/event_logging/batch HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", test.head,
				test.body); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || resp.Close != test.closed {
				t.Errorf("status %d, close %v: %s (%v)", resp.StatusCode, resp.Close, body, err)
			}
		})
	}
}
