package daemon

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"slices"

	"perigee/internal/store/config"
)

// encrypt makes a server use TLS if a certificate is configured. Each handshake uses the
// certificate in force then, so a reload replaces it without closing connections.
func (d *Daemon) encrypt(server *http.Server) {
	if d.certificate.Load() == nil {
		return
	}
	server.TLSConfig = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return d.certificate.Load(), nil },
	}
}

// applyCertificate puts the certificate of a changed configuration in force, and reports whether it
// is another one. Adding and removing tls needs a restart.
func (d *Daemon) applyCertificate(loaded *config.Loaded) (renewed bool) {
	before := d.certificate.Load()
	if before == nil || loaded.Certificate == nil {
		return false
	}
	d.certificate.Store(loaded.Certificate)
	return !slices.EqualFunc(before.Certificate, loaded.Certificate.Certificate, bytes.Equal)
}
