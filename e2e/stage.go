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

// A stage is what clients meet: three daemons. One answers from its built-in simulator, as "perigee serve
// --simulate" does. The second has a provider behind it, a simulator in a process of its own with a witness in
// between, and keys, some of which are good for one request a minute only. The third asks the Antigravity gateway, which
// the same simulator plays, with an account that was imported.
type stage struct {
	simulated string
	watched   string
	gateway   string
	shaky     string // asks provider, with keep-alives as everyone has them
	provider  *shakyProvider
	witness   *witness
	key       string

	binary    string // perigee
	dir       string
	processes []*process
	mu        sync.Mutex
	limited   []string // keys that nobody has used yet
	printed   bool     // a daemon runs where the documents say
}

// newStage starts everything; there is one limited key for every client that wants to meet the limit.
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

// quickSigns has every daemon give signs of life after a second: each client meets them, and must not stumble.
const quickSigns = "limits: {keep_alive: 1s}\n"

func (s *stage) open(ctx context.Context, binary string) (err error) {
	settings := filepath.Join(s.dir, "simulated.yaml")
	if err := os.WriteFile(settings, []byte(quickSigns), 0o600); err != nil {
		return err
	}
	if s.simulated, err = s.start(ctx, "simulated", binary, "serve", "--simulate", "--config", settings, "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	provider, err := s.start(ctx, "provider", binary, "simulate", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
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
	return s.openGateway(ctx, binary, provider)
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

// openGateway signs an account in, as somebody who comes from another program would, and serves it.
func (s *stage) openGateway(ctx context.Context, binary, provider string) (err error) {
	config, accounts := filepath.Join(s.dir, "gateway.yaml"), filepath.Join(s.dir, "accounts.json")
	text := quickSigns + fmt.Sprintf("upstreams:\n  - name: gravity\n    kind: antigravity\n    accept_terms_risk: true\n    endpoints: [%[1]q]\n"+
		"    oauth: {token_url: \"%[1]s/token\", userinfo_url: \"%[1]s/oauth2/v2/userinfo\", client_id: e2e, client_secret: e2e-secret}\n"+
		"keys:\n  - {name: client, secret: %[2]s}\n", provider, s.key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(accounts, []byte(`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, binary, "account", "import", accounts, "--config", config)
	cmd.Env = s.env("gateway")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("perigee account import: %w: %s", err, firstLines(string(said), 5))
	}
	s.gateway, err = s.start(ctx, "gateway", binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
	return err
}

// servePrinted runs "perigee serve" without settings, once, for clients that are set up as the documents print it.
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
	for _, p := range s.processes {
		p.stop()
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
	cmd *exec.Cmd
	log *os.File
}

func (p *process) stop() {
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		p.cmd.Process.Kill() // where there is no such signal
	}
	p.cmd.Wait()
	p.log.Close()
}

// start runs a perigee until the stage is closed, and returns the address it says it listens on.
func (s *stage) start(ctx context.Context, name, binary string, args ...string) (address string, err error) {
	home := filepath.Join(s.dir, name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = s.env(name)
	cmd.Stdout = log
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start perigee: %w", err)
	}
	s.processes = append(s.processes, &process{cmd, log})

	found := make(chan string, 1)
	go watchForAddress(stderr, log, found)
	select {
	case address = <-found:
	case <-time.After(10 * time.Second):
	}
	if address == "" {
		said, _ := os.ReadFile(log.Name())
		return "", fmt.Errorf("perigee %s does not say within ten seconds where it listens: %s", args[0], firstLines(string(said), 5))
	}
	return address, nil
}

// listenAddress is in the first line of both serve and simulate.
var listenAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// watchForAddress copies what perigee says into the log, and sends the address of its first line that has one.
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
