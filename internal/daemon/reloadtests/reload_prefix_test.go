package reloadtests

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// A changingFile is a configuration file that counts how often its present content was read.
type changingFile struct {
	mu    sync.Mutex
	text  string
	reads int
}

func (f *changingFile) read(string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return []byte(f.text), nil
}

// put replaces the content and waits until it has been read so often that no number of reads would
// change anything.
func (f *changingFile) put(t *testing.T, text string) {
	t.Helper()
	f.mu.Lock()
	f.text, f.reads = text, 0
	f.mu.Unlock()
	await.Until(t, "the file has been read", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.reads >= 10
	})
}

// A skippingClock can be set forward, so that calls without a key are not slowed down as many
// within a minute are.
type skippingClock struct{ minutes atomic.Int64 }

func (c *skippingClock) now() time.Time {
	return time.Now().Add(time.Duration(c.minutes.Load()) * time.Minute)
}

func (c *skippingClock) skip() { c.minutes.Add(1) }

// A file may be cut off anywhere and stay like that for any time. No such file makes calls without
// a key possible, or lets the simulator answer. Before reloads were checked for that, the beginning
// of this file up to "keys:" did both.
func TestReloadOfAnyPrefixKeepsKeysAndUpstreams(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	provider := daemontest.NewStage(t)
	close(provider.GoOn)
	whole := strings.ReplaceAll(`# perigee for a team
log: warn
limits:
  body: 32MiB
  concurrency: 100
keys:
  - name: laptop
    secret: secret-of-the-laptop
    rpm: 100000
  - {name: desk, secret: secret-of-the-desk}
upstreams:
  - name: studio
    kind: gemini
    url: "URL"
    keys: [studio-key]
  - {name: other, kind: gemini, url: "URL", keys: [other-key, another-key]}
models:
  aliases: {gpt-4o: gemini-2.5-flash}
  routes:
    - {match: "gemini-*", to: [studio, other]}
`, "URL", provider.URL)
	file := &changingFile{text: whole}
	src := daemontest.Sources("", daemontest.DataDir(t))
	src.ReadFile = file.read
	var clock skippingClock
	g := daemontest.StartIn(t, src, func(o *daemon.Options) { o.Poll, o.Now = time.Millisecond, clock.now })
	served, tried, step := 0, 0, 1
	if perigeetest.Raced {
		step = 7
	}
	for end := len(whole) - 1; end >= 0; end -= step {
		tried++
		clock.skip()
		file.put(t, whole[:end])
		if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusUnauthorized {
			t.Errorf("with the file cut off after %q a call without a key gets %d", whole[:end], got)
		}
		resp := daemontest.Ask(t, g, daemontest.Streaming, "secret-of-the-laptop")
		if got := resp.Header.Get("X-Perigee-Upstream"); got == daemon.SimulatorName || g.Simulated() {
			t.Fatalf("with the file cut off after %q the simulator answers", whole[:end])
		}
		if resp.StatusCode == http.StatusOK {
			served++
		}
		_ = resp.Body.Close()
	}
	if served < tried/2 {
		t.Errorf("only %d of %d cuts left the key and the upstream in force", served, tried)
	}
	file.put(t, whole)
	if got := daemontest.Status(t, g, daemontest.Streaming, "secret-of-the-laptop"); got != http.StatusOK {
		t.Errorf("with the whole file again the status is %d", got)
	}
}
