package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A stage is what clients meet: three daemons. One answers from its built-in simulator, as "perigee
// serve
// --simulate" does. The second has a provider behind it, a simulator in a process of its own with a witness in
// between, and keys, some of which are good for one request a minute only. The third asks the
// Antigravity gateway, which the same simulator plays, with an account that was imported.
type stage struct {
	simulated string
	watched   string
	gateway   string
	simulator string // the provider behind watched and gateway
	shaky     string // asks provider, with keep-alives as everyone has them
	provider  *shakyProvider
	witness   *witness
	key       string

	binary    string // perigee
	dir       string
	processes []*process
	mu        sync.Mutex
	limited   []string // unused keys
	printed   bool     // a daemon runs where the documents say
	carrying  sync.Once
	carried   *headless // its answers come through a language server
	uncarried error     // why it does not run

	examining  sync.Once
	examined   string // the address of the simulator that SDKs examine
	unexamined error  // why it does not run

	openCodeServing sync.Once
	openCode        *openCodeServer // speaks all dialects
	openCodeFailed  error           // why it does not run

	served map[*provider]*served // the daemons in front of further providers

	mcpServing sync.Once
	mcpURL     string // a daemon with a directory for MCP clients
	mcpFailed  error  // why it does not run
}

// newStage starts everything; there is one limited key for every client that wants to meet the
// limit.
func newStage(ctx context.Context, binary string, clients []client) (*stage, error) {
	dir, err := os.MkdirTemp("", "perigee-e2e-")
	if err != nil {
		return nil, err
	}
	s := &stage{binary: binary, dir: dir, key: "e2e-client-key"}
	for i := range clients {
		s.limited = append(s.limited, fmt.Sprintf("e2e-limited-key-%d", i))
	}
	if err := s.open(ctx, binary); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// quickSigns has every daemon give signs of life after a second: each client meets them, and must
// not stumble.
const quickSigns = "limits: {keep_alive: 1s}\n"

// usedUpQuota has the provider behind watched and gateway refuse a model that only the scenario of
// that name asks for, with a quota that resets in more than an hour.
const usedUpQuota = "faults:\n  - {when: {model: gemini-2.5-flash-lite}, do: quota_exhausted}\n"

func (s *stage) open(ctx context.Context, binary string) (err error) {
	settings := filepath.Join(s.dir, "simulated.yaml")
	if err := os.WriteFile(settings, []byte(quickSigns), 0o600); err != nil {
		return err
	}
	if s.simulated, err = s.start(ctx, "simulated", binary, "serve", "--simulate", "--config", settings, "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	faults := filepath.Join(s.dir, "faults.yaml")
	if err := os.WriteFile(faults, []byte(usedUpQuota), 0o600); err != nil {
		return err
	}
	provider, err := s.start(ctx, "provider", binary, "simulate", "--script", faults, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.simulator = provider
	if s.witness, err = newWitness(provider); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "watched.yaml")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return err
	}
	if s.watched, err = s.start(ctx, "watched", binary, "serve", "--config", config, "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	if err := s.openShaky(ctx, binary, provider); err != nil {
		return err
	}
	s.gateway, err = s.serveGateway(ctx, "gateway", provider, "")
	return err
}

// openShaky puts a provider in trouble behind a daemon.
func (s *stage) openShaky(ctx context.Context, binary, simulator string) (err error) {
	if s.provider, err = newShakyProvider(simulator); err != nil {
		return err
	}
	config := filepath.Join(s.dir, "shaky.yaml")
	text := fmt.Sprintf("upstreams:\n  - {name: shaky, kind: gemini, url: %q, keys: [any]}\nkeys:\n  - {name: client, secret: %s}\n", s.provider.url, s.key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	s.shaky, err = s.start(ctx, "shaky", binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
	return err
}

// serveGateway imports an account from another program's file and serves it. Settings are for the
// upstream.
func (s *stage) serveGateway(ctx context.Context, name, provider, settings string) (address string, err error) {
	config, accounts := filepath.Join(s.dir, name+".yaml"), filepath.Join(s.dir, name+"-accounts.json")
	text := quickSigns + fmt.Sprintf("upstreams:\n  - name: gravity\n    kind: antigravity\n    accept_terms_risk: true\n    endpoints: [%[1]q]\n"+
		"    oauth: {token_url: \"%[1]s/token\", userinfo_url: \"%[1]s/oauth2/v2/userinfo\", client_id: e2e, client_secret: e2e-secret}\n"+
		"%[3]skeys:\n  - {name: client, secret: %[2]s}\n", provider, s.key, settings)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(accounts, []byte(`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`), 0o600); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, s.binary, "account", "import", accounts, "--config", config)
	cmd.Env = s.env(name)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("perigee account import: %w: %s", err, firstLines(string(said), 5))
	}
	return s.start(ctx, name, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
}

// servePrinted runs "perigee serve" without settings, once, for clients that are set up as the
// documents print it.
func (s *stage) servePrinted(ctx context.Context) error {
	if s.printed {
		return nil
	}
	address, err := s.start(ctx, "printed", s.binary, "serve")
	if err == nil && address != printedAddress {
		err = fmt.Errorf("perigee serve listens on %s, not on %s, which the documents print", address, printedAddress)
	}
	s.printed = err == nil
	return err
}

// env is what a perigee of the given name sees of the machine.
func (s *stage) env(name string) []string {
	home := filepath.Join(s.dir, name)
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "PERIGEE_DATA_DIR=" + filepath.Join(home, "data"), "PERIGEE_KEYRING=off"}
}

func (s *stage) config() string {
	b := new(strings.Builder)
	b.WriteString(quickSigns)
	fmt.Fprintf(b, "upstreams:\n  - {name: witness, kind: gemini, url: %q, keys: [any]}\nkeys:\n  - {name: client, secret: %s}\n", s.witness.url, s.key)
	for i, key := range s.limited {
		fmt.Fprintf(b, "  - {name: limited-%d, secret: %s, rpm: 1}\n", i, key)
	}
	return b.String()
}

// limitedKey gives a key that has its one request left.
func (s *stage) limitedKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.limited[0]
	s.limited = s.limited[1:]
	return key
}

func (s *stage) close() {
	if s.openCode != nil {
		s.openCode.end()
	}
	for _, p := range s.processes {
		p.stop()
	}
	for _, d := range s.served {
		if d.end != nil {
			d.end()
		}
	}
	if s.witness != nil {
		s.witness.close()
	}
	if s.provider != nil {
		s.provider.close()
	}
	os.RemoveAll(s.dir)
}

// A process is a perigee that was started and must be ended.
type process struct {
	cmd     *exec.Cmd
	log     *os.File
	address string
	drained chan struct{} // closed when everything it said is in the log
	ended   sync.Once
}

// stop ends the process if it was not ended before.
func (p *process) stop() { p.end(syscall.SIGTERM) }

func (p *process) end(signal os.Signal) {
	p.ended.Do(func() {
		if p.cmd.Process.Signal(signal) != nil {
			p.cmd.Process.Kill() // where there is no such signal
		}
		select {
		case <-p.drained:
		case <-time.After(10 * time.Second): // a process that it has started lives on
		}
		p.cmd.Wait()
		p.log.Close()
	})
}

// kill kills the process with this ID, which the caller has not started.
func kill(id int) error {
	process, err := os.FindProcess(id)
	if err != nil {
		return err
	}
	return process.Kill()
}

// said is everything that the process has written so far.
func (p *process) said() string {
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// start runs a perigee until the stage is closed, and returns the address it says it listens on.
func (s *stage) start(ctx context.Context, name, binary string, args ...string) (address string, err error) {
	p, err := s.launch(ctx, name, binary, args...)
	if err != nil {
		return "", err
	}
	return p.address, nil
}

// launch is start for a perigee that the caller also looks at, or ends before the stage is closed.
func (s *stage) launch(ctx context.Context, name, binary string, args ...string) (*process, error) {
	home := filepath.Join(s.dir, name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = s.env(name)
	cmd.Stdout = log
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start perigee: %w", err)
	}
	p := &process{cmd: cmd, log: log, drained: make(chan struct{})}
	s.mu.Lock()
	s.processes = append(s.processes, p)
	s.mu.Unlock()

	found := make(chan string, 1)
	go func() {
		defer close(p.drained)
		watchForAddress(stderr, log, found)
	}()
	select {
	case p.address = <-found:
	case <-time.After(time.Minute):
	}
	if p.address == "" {
		return nil, fmt.Errorf("perigee %s does not say within a minute where it listens: %s", args[0], firstLines(p.said(), 5))
	}
	return p, nil
}

// listenAddress is in the first line of both serve and simulate.
var listenAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// watchForAddress copies what perigee says into the log, and sends the address of its first line
// that has one.
func watchForAddress(said io.Reader, log io.Writer, found chan<- string) {
	defer close(found)
	lines := bufio.NewScanner(said)
	sent := false
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		if address := listenAddress.FindString(lines.Text()); address != "" && !sent {
			found <- address
			sent = true
		}
	}
}
