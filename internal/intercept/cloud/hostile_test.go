package cloud

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What follows a body that cannot be read is not another request, whether the body was passed on as
// it came or read before.
func TestNothingIsReadAfterABrokenBody(t *testing.T) {
	for _, path := range []string{"/v1internal:loadCodeAssist", streamPath} {
		for _, body := range []string{"10000000000000000\r\n", "2\r\nabc\r\n0\r\n\r\n", "0\n\n", "zz\r\n"} {
			r := newCallRig(t, func(_ http.ResponseWriter, req *http.Request) {
				if strings.Contains(req.URL.Path, "hidden") {
					t.Errorf("%s with the body %q: the cloud was asked for %s", path, body, req.URL.Path)
				}
			})
			host := strings.TrimPrefix(r.base, "http://")
			conn, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%sGET /hidden HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host, body, host)
			said, _ := io.ReadAll(conn) // to the end of the connection
			if strings.Count(string(said), "HTTP/1.1 ") > 1 {
				t.Errorf("%s with the body %q: answered with %s", path, body, said)
			}
			_ = conn.Close()
		}
	}
}
