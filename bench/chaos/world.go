package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"perigee/internal/testing/testenv"
)

// Names of the upstreams.
const (
	first   = "first"
	second  = "second"
	gravity = "gravity"
)

// A world is one perigee with all that is around it.
type world struct {
	binary    string
	dir       string // for logs and the configuration
	data      string // data_dir, on a file system of its own where that is permitted
	limited   bool   // data can be filled
	memory    string // limits.memory; empty means this perigee does not have it
	port      int
	provider  *provider
	simulator *process
	database  *testenv.Postgres // nil means SQLite
	urls      map[string]string
	trust     string // file with the provider's certificate
	without   string // disturbances that are left out
	soak      bool   // the parts are disturbed side by side

	mu        sync.Mutex
	perigee   *process
	starts    int
	failed    int // starts that failed
	peak      int64
	downs     []span
	storeOuts []span
	kills     []time.Time
}

func newWorld(ctx context.Context, o options, dir, storage string) (_ *world, err error) {
	w := &world{binary: o.binary, dir: dir, urls: map[string]string{}, without: o.without, soak: o.soak}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.data, w.limited, err = smallDisk(filepath.Join(dir, "data"), o.disk()); err != nil {
		return nil, err
	}
	if storage == "postgres" {
		if w.database, err = testenv.StartPostgres(ctx); err != nil {
			return nil, err
		}
	}
	schema, _ := exec.Command(w.binary, "config", "schema").Output()
	if strings.Contains(string(schema), `"memory"`) {
		w.memory = o.memory
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	w.port = ports[0]
	if err := w.startProvider(ctx, o.seed, ports[1]); err != nil {
		return nil, err
	}
	if err := w.write(w.config("")); err != nil {
		return nil, err
	}
	if err := w.importAccounts(ctx); err != nil {
		return nil, err
	}
	return w, w.up(ctx)
}

const simulatorScript = `
accounts:
  - {email: ` + adaEmail + `, refresh_token: sim-refresh-ada, project: sim-project-ada, tier: free-tier, limits: {five_hour: -1, weekly: -1}}
  - {email: ` + benEmail + `, refresh_token: sim-refresh-ben, project: sim-project-ben, tier: free-tier, limits: {five_hour: -1, weekly: -1}}
`

func (w *world) startProvider(ctx context.Context, seed uint64, port int) error {
	script := filepath.Join(w.dir, "script.yaml")
	if err := os.WriteFile(script, []byte(simulatorScript), 0o600); err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	var err error
	w.simulator, err = start(filepath.Join(w.dir, "simulator.log"), w.env(), w.binary, "simulate", "--listen", address, "--script", script)
	if err != nil {
		return err
	}
	if err := w.simulator.listening(ctx, "http://"+address+"/"); err != nil {
		return err
	}
	if w.provider, err = newProvider(seed, "http://"+address); err != nil {
		return err
	}
	certificate, err := newCertificate(w.dir)
	if err != nil {
		return err
	}
	w.trust = filepath.Join(w.dir, certificateFile)
	for _, l := range []struct {
		name string
		idle time.Duration
		tls  *tls.Config
	}{{first, 0, certificate}, {second, 300 * time.Millisecond, nil}, {gravity, 0, nil}} {
		if w.urls[l.name], err = w.provider.listen(l.name, l.idle, l.tls); err != nil {
			return err
		}
	}
	return nil
}

// config is the text of the configuration; the alias is what reloads change.
func (w *world) config(alias string) string {
	var b strings.Builder
	b.WriteString("# made by bench/chaos\nlog: info\n")
	b.WriteString("limits: {first_byte: 3s, idle: 3s, keep_alive: 1s, drain: 5s")
	if w.memory != "" {
		b.WriteString(", memory: " + w.memory)
	}
	b.WriteString("}\nkeys:\n")
	for _, k := range clientKeys {
		if !k.wrong {
			fmt.Fprintf(&b, "  - {name: %s, secret: %s%s}\n", k.name, k.secret, k.settings)
		}
	}
	fmt.Fprintf(&b, `upstreams:
  - {name: first, kind: gemini, url: %q, keys: [one, two]}
  - {name: second, kind: gemini, url: %q, keys: [three]}
  - name: gravity
    kind: antigravity
    accept_terms_risk: true
    endpoints: [%[3]s]
    pools: [antigravity]
    max_wait: 2s
    oauth: {auth_url: %[3]s/o/oauth2/v2/auth, token_url: %[3]s/token, userinfo_url: %[3]s/oauth2/v2/userinfo, client_id: id, client_secret: of-the-client}
models:
  routes:
    - {match: gemini-2.5-pro, to: [gravity, first]}
    - {match: gemini-2.5-flash, to: [second, gravity]}
`, w.urls[first], w.urls[second], w.urls[gravity])
	if alias != "" {
		fmt.Fprintf(&b, "  aliases: {%s: gemini-3-flash}\n", alias)
	}
	if w.soak {
		b.WriteString("traces: {keep: " + soakTraces + "}\n")
	}
	if w.database != nil {
		fmt.Fprintf(&b, "store: {url: %q, seal_key: %q}\n", w.database.URL("postgres"), sealKey)
	}
	return b.String()
}

// sealKey is 32 bytes of base64, for a database that ends with the run.
const sealKey = "Y2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MgY2hhb3MgY2g="

func (w *world) configFile() string { return filepath.Join(w.dir, "config.yaml") }

// write replaces the configuration at once, as careful editors do.
func (w *world) write(text string) error {
	next := w.configFile() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.configFile())
}

func (w *world) env() []string {
	return []string{
		"HOME=" + w.dir, "TMPDIR=" + w.dir, "PERIGEE_DATA_DIR=" + w.data, "PERIGEE_KEYRING=off",
		"SSL_CERT_FILE=" + w.trust, "GOTRACEBACK=all",
	}
}

func (w *world) importAccounts(ctx context.Context) error {
	accounts := `[{"email":"` + adaEmail + `","refresh_token":"sim-refresh-ada"},{"email":"` + benEmail + `","refresh_token":"sim-refresh-ben"}]`
	if err := os.WriteFile(w.accountsFile(), []byte(accounts), 0o600); err != nil {
		return err
	}
	_, err := w.account(ctx, "import", w.accountsFile())
	return err
}

const perigeeLog = "perigee.log"

func (w *world) url() string { return fmt.Sprintf("http://127.0.0.1:%d", w.port) }

// running returns the process that was started last.
func (w *world) running() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.perigee
}

// up starts perigee and ends the time in which it was down. With -soak the configuration may be
// broken and the disk full at this moment: then it is started again, as a service manager does.
func (w *world) up(ctx context.Context) error {
	for began := time.Now(); ; w.failed++ {
		err := w.startOnce(ctx)
		if err == nil || !w.soak || time.Since(began) > startLimit {
			return err
		}
		wait(ctx, time.Second)
	}
}

func (w *world) startOnce(ctx context.Context) error {
	w.starts++
	p, err := start(filepath.Join(w.dir, perigeeLog), w.env(), w.binary, "serve", "--config", w.configFile(),
		"--listen", fmt.Sprintf("127.0.0.1:%d", w.port))
	if err != nil {
		return err
	}
	if err := p.listening(ctx, w.url()+"/health"); err != nil {
		_ = p.end(syscall.SIGKILL, startLimit)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.perigee = p
	if n := len(w.downs); n > 0 && w.downs[n-1].to.IsZero() {
		w.downs[n-1].to = time.Now()
	}
	return nil
}

// down ends perigee with a signal.
func (w *world) down(signal syscall.Signal) error {
	w.mu.Lock()
	now := time.Now()
	w.downs = append(w.downs, span{from: now, drained: signal == syscall.SIGTERM})
	if signal == syscall.SIGKILL {
		w.kills = append(w.kills, now)
	}
	p := w.perigee
	w.mu.Unlock()
	err := p.end(signal, startLimit)
	w.peak = max(w.peak, p.peak)
	return err
}

func (w *world) close() {
	if w.perigee != nil {
		_ = w.perigee.end(syscall.SIGKILL, startLimit)
	}
	if w.simulator != nil {
		_ = w.simulator.end(syscall.SIGKILL, startLimit)
	}
	if w.provider != nil {
		w.provider.close()
	}
	if w.database != nil {
		w.database.Stop()
	}
	if w.limited {
		unmount(w.data)
	}
}

// freePorts finds ports that nothing listens on: perigee has to come back where it was.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// wait waits, but not longer than ctx.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
