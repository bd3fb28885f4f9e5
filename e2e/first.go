package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// answers is the scenario in which an agent answers after the steps of a firstUse.
const answers = "answers"

// maxSteps is how many commands a person may need to type until an agent answers.
const maxSteps = 3

// A firstUse is what a developer has before perigee, and the commands from there to an agent that
// answers: in an empty home, without a configuration and without a daemon.
type firstUse struct {
	name     string
	agent    string            // as in perigee run NAME
	steps    []string          // perigee's commands, and variables that are exported; the last one starts the agent
	files    map[string]string // in the home directory, from other programs
	upstream string            // that has to answer
	profile  string            // of the simulator
	local    bool              // the simulator is an Ollama server on this machine
}

var firstUses = []firstUse{
	{name: "gemini key", agent: "gemini-cli", steps: []string{"export GEMINI_API_KEY=AIza-first-use-0123456789abcdef", "run"}, upstream: "studio"},
	{name: "anthropic key", agent: "claude-code", steps: []string{"export ANTHROPIC_API_KEY=sk-ant-first-use-0123456789abcdef", "run"}, upstream: "anthropic"},
	{name: "openai key", agent: "codex", steps: []string{"export OPENAI_API_KEY=sk-first-use-0123456789abcdef", "run"}, upstream: "openai"},
	{name: "openrouter key", agent: "claude-code", steps: []string{"export OPENROUTER_API_KEY=sk-or-first-use-0123456789abcdef", "run"}, upstream: "openrouter", profile: "openrouter"},
	// The agent of Anthropic's: the Claude models in the list of Vertex AI may not be enabled.
	{name: "google cloud login", agent: "claude-code", steps: []string{"config init", "run"}, upstream: "cloud", files: map[string]string{
		".config/gcloud/application_default_credentials.json": `{
  "account": "",
  "client_id": "123456789012-first-use.apps.googleusercontent.com",
  "client_secret": "first-use-client-secret",
  "quota_project_id": "sim-project-ada",
  "refresh_token": "sim-refresh-ada",
  "type": "authorized_user",
  "universe_domain": "googleapis.com"
}`}},
	{name: "running ollama", agent: "opencode", steps: []string{"run"}, upstream: "ollama", local: true},
}

// providerHosts are the names under which the providers of firstUses are reached.
var providerHosts = []string{"generativelanguage.googleapis.com", "api.anthropic.com", "api.openai.com", "openrouter.ai",
	"aiplatform.googleapis.com", "oauth2.googleapis.com"}

// firstUseClients are the agents that answer at first use.
func firstUseClients() (clients []client) {
	setUps := map[string]connection{}
	for _, c := range knownConnections() {
		setUps[c.name] = c
	}
	for _, use := range firstUses {
		c := setUps[use.agent]
		clients = append(clients, client{
			name: "first use " + use.name, version: pinnedPackage(c.client.install, c.client.library), install: c.client.install,
			scenarios: []string{answers}, together: true,
			run: func(ctx context.Context, s *stage, this client, r *report) {
				r.add(this, answers, use.play(ctx, s, c))
			},
		})
	}
	return clients
}

// play takes the steps. The agent must print the provider's answer to "hello", which the upstream
// has given, and nothing may have been asked of the person.
func (use firstUse) play(ctx context.Context, s *stage, c connection) error {
	if len(use.steps) > maxSteps {
		return fmt.Errorf("%d steps are more than %d: %s", len(use.steps), maxSteps, strings.Join(use.steps, "; "))
	}
	c.settings = nil
	u, err := c.prepare(s, "-first-"+strings.ReplaceAll(use.name, " ", "-"))
	if err != nil {
		return err
	}
	profile := use.profile
	if profile == "" {
		profile = "openai"
	}
	simulator, err := s.launch(ctx, "first-"+strings.ReplaceAll(use.name, " ", "-"), s.binary, "simulate", "--profile", profile, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer simulator.stop()
	internet, err := newInternet(filepath.Join(u.home, "ca.pem"), simulator.address)
	if err != nil {
		return err
	}
	defer internet.close()
	u.env = append(u.env, "HTTPS_PROXY="+internet.proxy, "NO_PROXY=127.0.0.1,localhost", "SSL_CERT_FILE="+internet.certificate)
	if use.local {
		u.env = append(u.env, "OLLAMA_HOST="+simulator.address) // the usual port may be taken
	}
	for name, text := range use.files {
		if err := writeFile(filepath.Join(u.home, name), text); err != nil {
			return err
		}
	}
	var said string
	for _, step := range use.steps {
		if variable, ok := strings.CutPrefix(step, "export "); ok {
			u.env = append(u.env, variable)
			continue
		}
		args := strings.Fields(step)
		if step == "run" {
			args = append([]string{"run", c.name, "--"}, c.args...)
		}
		if said, err = u.perigee(ctx, args...); err != nil {
			return err
		}
	}
	if !simulatedHello.MatchString(said) || strings.Contains(said, "the built-in simulator answers") {
		return fmt.Errorf("it does not print the provider's answer: %s", lastBytes(said, 2000))
	}
	if err := u.daemonEnds(ctx); err != nil {
		return err
	}
	calls, err := u.perigee(ctx, "trace", "list", "--csv")
	if err != nil {
		return err
	}
	if !strings.Contains(calls, ","+use.upstream+",,200,") {
		return fmt.Errorf("no call has an answer of upstream %s:\n%s", use.upstream, lastBytes(calls, 2000))
	}
	return nil
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// An internet is a proxy that connects the hosts of the providers with a simulator, over TLS, and no
// other hosts. Clients that trust its certificate reach the simulator under the providers' names.
type internet struct {
	proxy       string
	certificate string // file
	servers     []*http.Server
}

func newInternet(certificate, simulator string) (*internet, error) {
	target, err := url.Parse(simulator)
	if err != nil {
		return nil, err
	}
	pair, err := selfSigned(certificate, providerHosts...)
	if err != nil {
		return nil, err
	}
	n := &internet{certificate: certificate}
	quiet := log.New(io.Discard, "", 0) // of connections that clients cut
	// The simulator has one base path for the APIs of all providers.
	forward := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which decides at Vertex AI what is there
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/api/v1")
		if r.Out.URL.Path != r.In.URL.Path {
			r.Out.URL.Path = "/v1" + r.Out.URL.Path
		}
	}}
	hosts, err := n.serve(&http.Server{Handler: forward, ErrorLog: quiet, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}})
	if err != nil {
		return nil, err
	}
	proxy, err := n.serve(&http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, port, err := net.SplitHostPort(r.Host)
		if r.Method != http.MethodConnect || err != nil || port != "443" || !slices.Contains(providerHosts, host) {
			http.Error(w, "there is no such host", http.StatusBadGateway)
			return
		}
		tunnel(w, hosts)
	})})
	if err != nil {
		n.close()
		return nil, err
	}
	n.proxy = "http://" + proxy
	return n, nil
}

// serve starts a server at a free address, with TLS if it has certificates.
func (n *internet) serve(server *http.Server) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.servers = append(n.servers, server)
	if server.TLSConfig != nil {
		go func() { _ = server.ServeTLS(listener, "", "") }()
	} else {
		go func() { _ = server.Serve(listener) }()
	}
	return listener.Addr().String(), nil
}

func (n *internet) close() {
	for _, server := range n.servers {
		_ = server.Close()
	}
}

// tunnel connects the client of a request with an address, until both have ended.
func tunnel(w http.ResponseWriter, address string) {
	far, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(far, buffered)
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(near, far)
	_ = near.Close()
	<-ended
}
