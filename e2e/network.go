package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// networkInstall is what it takes to make network namespaces and to change addresses in them.
const networkInstall = "network namespaces"

func installNetwork(ctx context.Context) (fresh bool, err error) {
	if runtime.GOOS != "linux" {
		return false, errors.New("there are no network namespaces on this system")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		if err := installDebian(ctx, "iproute2"); err != nil {
			return false, err
		}
		fresh = true
	}
	probe := append(namespaceCommand(), "sh", "-c", "ip link set lo up && ip link add near0 type veth peer name far0")
	if output, err := exec.CommandContext(ctx, probe[0], probe[1:]...).CombinedOutput(); err != nil {
		return fresh, fmt.Errorf("network namespaces are not permitted here: %w: %s", err, firstLines(string(output), 2))
	}
	return fresh, nil
}

// The protocols of a provider whose network changes, by the names that stand in the report.
const (
	movedHTTP2 = "HTTP/2 calls after a change of address"
	movedHTTP1 = "HTTP/1.1 calls after a change of address"
	movedIdle  = "HTTP/1.1 calls on idle connections after a change of address"
)

func movedNetworks() []client {
	return []client{{
		name: "change of network", version: "-", install: networkInstall, scenarios: []string{movedHTTP2, movedHTTP1, movedIdle},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			for i, scenario := range c.scenarios {
				limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
				r.add(c, scenario, changeNetwork(limited, s, fmt.Sprintf("moved-%d", i), scenario, r.out))
				cancel()
			}
		},
	}}
}

// The provider is on another host. Perigee's host loses the first address and gets the second.
const (
	hostProvider = "10.77.0.1"
	hostBefore   = "10.77.0.2"
	hostAfter    = "10.77.0.3"
)

// movedLimit is how long a call may take when the network changes while it waits.
const movedLimit = 10 * time.Second

// changeNetwork takes perigee's address away in the middle of calls, or between them. At most one
// of them may fail, and none may take longer than movedLimit.
func changeNetwork(ctx context.Context, s *stage, name, scenario string, out io.Writer) error {
	if _, ok := insideSandbox(); !ok {
		return errors.New("the addresses of this machine itself would change: no network namespace was entered")
	}
	far, err := newFarHost(ctx)
	if err != nil {
		return err
	}
	defer far.close()
	provider, err := newFarProvider(far, s.provider.target, scenario == movedHTTP2, filepath.Join(s.dir, name+".pem"))
	if err != nil {
		return err
	}
	defer provider.close()
	config := filepath.Join(s.dir, name+".yaml")
	text := fmt.Sprintf("limits: {first_byte: 60s}\nupstreams:\n  - {name: far, kind: gemini, url: %q, keys: [any], proxy: none}\n", provider.url)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	url, err := s.start(ctx, name, "env", "SSL_CERT_FILE="+provider.certificate, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t := &traffic{url: url + "/v1beta/models/gemini-3-flash:generateContent"}
	change := func() error {
		return execute(ctx, "sh", "-c", "printf 'addr del "+hostBefore+"/24 dev near0\\naddr add "+hostAfter+"/24 dev near0\\n' | ip -batch -")
	}
	if scenario == movedIdle {
		t.run(ctx, 4, 60, nil)
		t.broken, t.changed = change(), true
		change = nil
	}
	t.run(ctx, 4, 60, change)
	fmt.Fprintf(out, "      %d calls before the change, %d after; %d failed; the slowest took %.1f s; connections came from %s\n",
		t.before, t.after, len(t.failed), t.slowest.Seconds(), strings.Join(provider.sources(), ", then "))
	return errors.Join(t.check(), provider.check())
}

// traffic is calls from several clients at once.
type traffic struct {
	url string

	mu            sync.Mutex
	before, after int // calls that were answered, by when they were made
	changed       bool
	broken        error // of the change itself
	failed        []error
	slowest       time.Duration
}

// run makes calls with several clients until there are enough of them, changes something, and goes
// on until there are as many again. If there is nothing to change, it ends there.
func (t *traffic) run(ctx context.Context, clients, enough int, change func() error) {
	var all sync.WaitGroup
	var once sync.Once
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				t.mu.Lock()
				changed, ready, done := t.changed, t.before >= enough, t.after >= enough || len(t.failed) > 20 || t.broken != nil
				t.mu.Unlock()
				if done || ready && !changed && change == nil {
					return
				}
				if ready && change != nil {
					once.Do(func() {
						all.Go(func() {
							err := change()
							t.mu.Lock()
							defer t.mu.Unlock()
							t.changed, t.broken = true, err
						})
					})
				}
				began := time.Now()
				t.count(t.call(ctx), changed, time.Since(began))
			}
		})
	}
	all.Wait()
}

func (t *traffic) count(err error, changed bool, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slowest = max(t.slowest, took)
	switch {
	case err != nil:
		t.failed = append(t.failed, fmt.Errorf("after %.1f s: %w", took.Seconds(), err))
	case changed:
		t.after++
	default:
		t.before++
	}
}

func (t *traffic) call(ctx context.Context) error {
	body := `{"contents":[{"role":"user","parts":[{"text":"[[text: hello]]"}]}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(said, []byte("hello"))) {
		err = fmt.Errorf("%s: %s", resp.Status, firstLines(string(said), 3))
	}
	return err
}

func (t *traffic) check() error {
	switch {
	case t.broken != nil:
		return fmt.Errorf("change the address: %w", t.broken)
	case len(t.failed) > 1:
		return fmt.Errorf("%d calls failed, want at most one: %w", len(t.failed), errors.Join(t.failed...))
	case t.slowest > movedLimit:
		return fmt.Errorf("a call took %s, want at most %s", t.slowest, movedLimit)
	case t.before == 0 || t.after == 0:
		return fmt.Errorf("%d calls were answered before the change and %d after it", t.before, t.after)
	}
	return nil
}
