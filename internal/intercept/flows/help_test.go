package flows

import (
	"compress/zlib"
	"crypto/tls"
	"io"
	"net"
	"net/http"
)

func deflate(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }

// tlsClient is a connection with HTTP/1.1 to the rig.
func tlsClient(r *rig, conn net.Conn) *tls.Conn {
	config := r.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = "example.com", []string{"http/1.1"}
	return tls.Client(conn, config)
}
