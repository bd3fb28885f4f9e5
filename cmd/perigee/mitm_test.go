package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A mitmRig is a process of perigee mitm in front of a server for localhost.
type mitmRig struct {
	server     *httptest.Server
	serverCert string // a file
	address    string // of the proxy
	ca, har    string // files
	cmd        *exec.Cmd
	pipe       io.Closer // of stdout
	stdout     *bufio.Reader
	said       []string
}

const mitmCanary = "c4nary-hunter2"

func newMITMRig(t *testing.T, handler http.HandlerFunc, args ...string) *mitmRig {
	t.Helper()
	dir := t.TempDir()
	r := &mitmRig{serverCert: filepath.Join(dir, "server.pem"), har: filepath.Join(dir, "flows.har")}
	cert, key := perigeetest.Certificate(t, "server", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err := os.WriteFile(r.serverCert, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewUnstartedServer(handler)
	r.server.EnableHTTP2 = true
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	r.server.StartTLS()
	t.Cleanup(r.server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 3*await.Limit) // bounds every read of its output
	t.Cleanup(cancel)
	r.cmd = exec.CommandContext(ctx, "perigee", append([]string{"mitm", "--listen", "127.0.0.1:0", "--host", "localhost", "--upstream-ca", r.serverCert, "--har", r.har}, args...)...)
	r.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir+"/share", "XDG_CONFIG_HOME="+dir+"/etc", "PERIGEE_KEYRING=off")
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.pipe, r.stdout = stdout, bufio.NewReader(stdout)
	t.Cleanup(func() { _ = await.Result(t, r.cmd.Wait, "the end of the killed process") })
	for lines := bufio.NewScanner(stderr); r.address == ""; {
		if !lines.Scan() {
			t.Fatalf("it did not listen: %q", r.said)
		}
		r.said = append(r.said, lines.Text())
		if path, ok := strings.CutPrefix(lines.Text(), "perigee: certificate authority: "); ok {
			r.ca = path
		}
		r.address, _ = strings.CutPrefix(lines.Text(), "perigee: intercepting on ")
		if !strings.HasPrefix(r.address, "http://") {
			r.address = ""
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	return r
}

// url is one of the server, under the name that is intercepted.
func (r *mitmRig) url(path string) string {
	return strings.Replace(r.server.URL, "127.0.0.1", "localhost", 1) + path
}

type mitmFlow struct {
	Method, URL, HTTP, Error string
	Status                   int
	Request                  int64   `json:"request_bytes"`
	Response                 int64   `json:"response_bytes"`
	First                    float64 `json:"first_byte_ms"`
	Duration                 float64 `json:"duration_ms"`
}

// flow reads the next line of the process.
func (r *mitmRig) flow(t *testing.T) (f mitmFlow) {
	t.Helper()
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no line: %v", err)
	}
	if strings.Contains(line, "c4nary") {
		t.Errorf("a secret is printed: %s", line)
	}
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return f
}

// stop ends the process with a signal and returns the HAR file.
func (r *mitmRig) stop(t *testing.T, signal os.Signal) string {
	t.Helper()
	if err := r.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.stdout)
	if err := await.Result(t, r.cmd.Wait, "the end of the process"); err != nil {
		t.Errorf("it ended with %v", err)
	}
	return r.archive(t)
}

func (r *mitmRig) archive(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(r.har)
	if err != nil || !json.Valid(raw) {
		t.Fatalf("%v: %s", err, raw)
	}
	if bytes.Contains(raw, []byte("c4nary")) {
		t.Errorf("a secret is in the archive: %s", raw)
	}
	return string(raw)
}

// runProgram runs another program, which has to succeed, and returns its output. The test is
// skipped if it is not installed.
func runProgram(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.Contains(strings.ToUpper(v), "PROXY") }), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said.String())
	}
	return string(out)
}

// mitmServer answers with what it got, and with a canary of its own.
func mitmServer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Set-Cookie", "session="+mitmCanary)
	answer := fmt.Sprintf(`{"proto":%q,"query":%q,"authorization_was":%q,"length":%d,"access_token":%q}`,
		r.Proto, r.URL.RawQuery, r.Header.Get("Authorization"), len(body), mitmCanary)
	answer = strings.Replace(answer, `authorization_was":"Bearer `, `seen":"`, 1)
	if r.URL.Path == "/gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_, _ = io.WriteString(packed, answer)
		_ = packed.Close()
		return
	}
	_, _ = io.WriteString(w, answer)
}

func TestMITMWithCurl(t *testing.T) {
	r := newMITMRig(t, mitmServer, "--json")
	curl := func(args ...string) string {
		t.Helper()
		return runProgram(t, nil, "curl", append([]string{"-sS", "--fail", "-x", r.address, "-H", "Authorization: Bearer " + mitmCanary, "-b", "a=" + mitmCanary}, args...)...)
	}
	form := "grant_type=refresh_token&refresh_token=" + mitmCanary
	for _, c := range []struct{ flag, path, proto string }{
		{"--http1.1", "/a?key=" + mitmCanary, "HTTP/1.1"}, {"--http2", "/b?access_token=" + mitmCanary + "&x=1", "HTTP/2.0"}, {"--http2", "/gzip", "HTTP/2.0"},
	} {
		got := curl("--cacert", r.ca, c.flag, "--compressed", "-d", form, r.url(c.path))
		if !strings.Contains(got, `"proto":"`+c.proto+`"`) || strings.Count(got, mitmCanary) < 2 || !strings.Contains(got, fmt.Sprintf(`"length":%d`, len(form))) {
			t.Errorf("%s: %s", c.path, got)
		}
		f := r.flow(t)
		want := strings.ReplaceAll(r.url(c.path), mitmCanary, "REDACTED")
		if f.Method != "POST" || f.URL != want || f.Status != 200 || f.HTTP != c.proto || f.Error != "" || f.Request != int64(len(form)) || f.First > f.Duration ||
			c.path != "/gzip" && f.Response != int64(len(got)) {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	// Another name of the same server is tunnelled: curl sees the certificate of the server.
	if got := curl("--cacert", r.serverCert, r.server.URL+"/secret"); !strings.Contains(got, mitmCanary) {
		t.Error(got)
	}
	if f, want := r.flow(t), strings.TrimPrefix(r.server.URL, "https://"); f.Method != "CONNECT" || f.URL != want || f.Status != 200 || f.Request == 0 || f.Error != "" {
		t.Errorf("%+v, want %s", f, want)
	}
	archive := r.stop(t, os.Interrupt)
	for _, want := range []string{`refresh_token=REDACTED`, `\"access_token\":\"REDACTED\"`, `{"name":"Authorization","value":"REDACTED"}`, `/b?access_token=REDACTED&x=1`,
		`"compression":`, `"serverIPAddress":"127.0.0.1"`, `{"name":"session","value":"REDACTED"}`} {
		if !strings.Contains(archive, want) {
			t.Errorf("the archive has no %s:\n%s", want, archive)
		}
	}
	if strings.Contains(archive, "/secret") || strings.Count(archive, `"startedDateTime"`) != 3 {
		t.Error("a tunnel is in the archive")
	}
}

// Programs find the proxy and the certificate authority in their environment.
func TestMITMWithPrograms(t *testing.T) {
	perigeetest.Slow(t)
	for name, args := range map[string][]string{
		"python3": {"-c", "import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], data=b'password=" + mitmCanary + "')).read().decode())"},
		"node": {"-e", `const {connect} = require("net"), tls = require("tls"), proxy = new URL(process.env.HTTPS_PROXY), to = new URL(process.argv[1]);
			const raw = connect(proxy.port, proxy.hostname, () => raw.write("CONNECT " + to.host + " HTTP/1.1\r\nHost: " + to.host + "\r\n\r\n"));
			raw.once("data", () => { const s = tls.connect({socket: raw, servername: to.hostname}, () =>
				s.write("POST / HTTP/1.1\r\nHost: " + to.host + "\r\nConnection: close\r\nContent-Length: 23\r\n\r\npassword=` + mitmCanary + `"));
				s.pipe(process.stdout); s.on("error", e => { console.error(e); process.exit(1) }) });`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMITMRig(t, mitmServer, "--json")
			bundle := filepath.Join(filepath.Dir(r.ca), "bundle.pem")
			env := []string{"HTTPS_PROXY=" + r.address, "https_proxy=" + r.address, "SSL_CERT_FILE=" + bundle, "NODE_EXTRA_CA_CERTS=" + r.ca}
			if got := runProgram(t, env, name, append(args, r.url("/"))...); !strings.Contains(got, `"length":23`) {
				t.Error(got)
			}
			if f := r.flow(t); f.Method != "POST" || f.Status != 200 || f.Request != 23 || f.URL != r.url("/") {
				t.Errorf("%+v", f)
			}
			if archive := r.stop(t, syscall.SIGTERM); !strings.Contains(archive, "password=REDACTED") {
				t.Error(archive)
			}
		})
	}
}

// An event stream that is open when the signal comes is cut, visibly for the client, and is in the
// archive. Before that, its events come as they are sent.
func TestMITMCompletesTheArchiveOfOpenStreams(t *testing.T) {
	perigeetest.Slow(t)
	ended := make(chan struct{})
	r := newMITMRig(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id_token\":%q}\n\n", mitmCanary)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	proxy, _ := url.Parse(r.address)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: poolOf(t, r.ca)}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get(r.url("/events"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "data:" {
		t.Fatal(string(first), err)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the stream looks complete")
	}
	await.Receive(t, ended, "the end of the stream at the server")
	line, err := r.stdout.ReadString('\n')
	if want := regexp.MustCompile(`^\d\d:\d\d:\d\d  200 +0 B +\d+ B +\S+s +\S+s  HTTP/1.1  GET     https://localhost:\d+/events  the `); err != nil || !want.MatchString(line) {
		t.Errorf("%q, %v", line, err)
	}
	if err := await.Result(t, r.cmd.Wait, "the end of the process"); err != nil {
		t.Error(err)
	}
	if archive := r.archive(t); !strings.Contains(archive, `data: {\"id_token\":\"REDACTED\"}\n\n`) || !strings.Contains(archive, `"_error":"the `) {
		t.Error(archive)
	}
}

// A reader of stdout that goes away ends the command quietly, with a complete archive.
func TestMITMEndsWithItsReader(t *testing.T) {
	r := newMITMRig(t, mitmServer, "--json")
	curl := func() {
		runProgram(t, nil, "curl", "-sS", "-x", r.address, "--cacert", r.ca, "-o", os.DevNull, r.url("/"))
	}
	curl()
	r.flow(t)
	_ = r.pipe.Close()
	curl()
	if err := await.Result(t, r.cmd.Wait, "the end of the process"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(r.archive(t), `"startedDateTime"`); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func poolOf(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate: %v", err)
	}
	return pool
}
