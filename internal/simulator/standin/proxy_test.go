package standin

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"perigee/internal/simulator"
)

// tunnels is a proxy that leads to one server, whatever host is asked for.
func tunnels(t *testing.T, address string) (proxy *httptest.Server, asked func() []string) {
	var mu sync.Mutex
	var hosts []string
	proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		mu.Lock()
		hosts = append(hosts, r.Host)
		mu.Unlock()
		server, err := net.Dial("tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(server, buffered)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
	}))
	t.Cleanup(proxy.Close)
	return proxy, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return hosts
	}
}

func TestCloudIsReachedThroughTheProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for settings, proto := range map[string]string{"generation=hub http=1.1": "HTTP/1.1", "generation=hub http=2": "HTTP/2.0", "generation=hub": "HTTP/2.0"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			cloud := newCloudRig(t, simulator.Options{})
			secure := httptest.NewUnstartedServer(cloud)
			secure.EnableHTTP2 = true
			secure.StartTLS()
			t.Cleanup(secure.Close)
			roots := filepath.Join(t.TempDir(), "roots.pem")
			check(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
			proxy, asked := tunnels(t, secure.Listener.Addr().String())
			home := t.TempDir()
			writeToken(t, home, cloud.token("ada"))
			r := &serverRig{cloud: cloud, settings: settings}
			r.processRig = startProcess(t, start{settings: settings, home: home, env: []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + roots, "NO_PROXY=127.0.0.1,localhost"},
				args: []string{"--standalone", "--csrf_token", testCSRF, "--cloud_code_endpoint", "https://example.com", "--override_ide_version", "2.15.1"}})
			r.says(`fetched \d+ models`)
			if steps := r.finishes(r.say("[[text: through]]"), 4); steps[2].text != "through" {
				t.Errorf("%s", kinds(steps))
			}
			if got := cloud.generations("agent")[0].proto; got != proto {
				t.Errorf("over %s", got)
			}
			if hosts := asked(); len(hosts) == 0 || hosts[0] != "example.com:443" {
				t.Errorf("the proxy was asked for %q", hosts)
			}
		})
	}
}
