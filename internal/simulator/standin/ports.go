package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// ports are where the process listens. lsp is nil without --enable_lsp.
type ports struct {
	https, http, lsp net.Listener
}

func portOf(l net.Listener) int {
	if l == nil {
		return 0
	}
	return l.Addr().(*net.TCPAddr).Port
}

func (p ports) close() {
	for _, l := range []net.Listener{p.https, p.http, p.lsp} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// serve opens the ports, logs them, and serves LanguageServerService on two of them.
func (p *process) serve(ctx context.Context) (ports, error) {
	https, lsp := p.httpsPort, p.lspPort
	if p.generation == classic {
		https = p.serverPort
		if p.randomPort {
			https, lsp = 0, 0
		}
	}
	var l ports
	var err error
	certificate, err := selfSigned()
	if err != nil {
		return l, err
	}
	if l.https, err = p.listen(https, "HTTPS (gRPC)"); err != nil {
		return l, err
	}
	if l.http, err = p.listen(p.httpPort, "HTTP"); err != nil {
		l.close()
		return l, err
	}
	if p.enableLSP {
		if l.lsp, err = p.listen(lsp, "LSP"); err != nil {
			l.close()
			return l, err
		}
		go swallow(l.lsp)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: p.handler(), Protocols: &protocols, ErrorLog: log.New(p.log, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{certificate}},
		BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.ServeTLS(l.https, "", "") }() // they end with their listeners
	go func() { _ = server.Serve(l.http) }()
	return l, nil
}

func (p *process) listen(port int, use string) (net.Listener, error) {
	kind := "fixed"
	if port == 0 {
		kind = "random"
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("failed to listen on %s port %d for %s: %w", kind, port, use, err)
	}
	p.log.info("Language server listening on %s port at %d for %s", kind, portOf(l), use)
	return l, nil
}

// swallow accepts connections and discards their input: the language server protocol is not
// simulated.
func swallow(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
	}
}

// selfSigned makes a certificate for localhost.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// announcement is the discovery file of a server in persistent mode.
type announcement struct {
	PID       int    `json:"pid"`
	HTTPSPort int    `json:"httpsPort"`
	HTTPPort  int    `json:"httpPort"`
	LSPPort   int    `json:"lspPort"`
	LSVersion string `json:"lsVersion"`
	CSRFToken string `json:"csrfToken"`
}

// announce writes the discovery file. Its name depends on the workspace.
func (p *process) announce(l ports) error {
	dir := filepath.Join(p.data, "daemon")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(announcement{os.Getpid(), portOf(l.https), portOf(l.http), portOf(l.lsp), p.version, p.csrf})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(p.workspaceID))
	path := filepath.Join(dir, fmt.Sprintf("ls_%x.json", sum[:8]))
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
