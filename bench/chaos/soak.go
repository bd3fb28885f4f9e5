package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// disk is the size of the file system of the data. A soak stores for an hour what chaos stores for
// minutes.
func (o options) disk() string {
	if o.soak {
		return "1g"
	}
	return "192m"
}

// soakTraces is traces.keep of a soak, so small that it is reached within minutes.
const soakTraces = "32MiB"

// soakPause returns the pauses between the disturbances of a part: short ones, so that several parts
// are disturbed at the same moment. The process is left alone for the second third of the time,
// because only in a process that lives can memory grow.
func soakPause(random *rand.Rand, part part, length time.Duration) func() time.Duration {
	began := time.Now()
	return func() time.Duration {
		pause := time.Duration(1000+random.IntN(9000)) * time.Millisecond
		if part != thePrograms {
			return pause
		}
		pause *= 4
		if at := time.Since(began) + pause; at > length/3 && at < length*2/3 {
			return length*2/3 - time.Since(began)
		}
		return pause
	}
}

// The accounts of the gateway.
const adaEmail, benEmail = "ada@example.com", "ben@example.com"

func (w *world) accountsFile() string { return filepath.Join(w.dir, "accounts.json") }

// account runs a command of perigee account.
func (w *world) account(ctx context.Context, args ...string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.binary, append([]string{"account", args[0], "--config", w.configFile()}, args[1:]...)...)
	cmd.Env = w.env()
	output, err = cmd.Output()
	if failed, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("perigee account %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return output, err
}

// changeAccounts runs commands with a pause between them. With -soak a command may fail while
// perigee is down or nothing can be stored: it is repeated until it succeeds.
func (w *world) changeAccounts(ctx context.Context, pause time.Duration, commands ...[]string) error {
	for i, args := range commands {
		if i > 0 {
			wait(ctx, pause)
		}
		for began := time.Now(); ; {
			_, err := w.account(ctx, args...)
			if err == nil || args[0] == "remove" && strings.Contains(err.Error(), "there is no account") {
				break
			}
			if !w.soak || time.Since(began) > startLimit {
				return err
			}
			wait(ctx, time.Second)
		}
	}
	return nil
}

// verifyAccounts checks that all accounts are there and enabled: every disturbance puts back what it
// changed.
func (r *run) verifyAccounts(ctx context.Context) {
	output, err := r.world.account(ctx, "list", "--json")
	var accounts []struct {
		Email, State string
	}
	if err == nil {
		err = json.Unmarshal(output, &accounts)
	}
	var enabled []string
	for _, a := range accounts {
		if a.State != "disabled" {
			enabled = append(enabled, a.Email)
		}
	}
	slices.Sort(enabled)
	if err != nil || !slices.Equal(enabled, []string{adaEmail, benEmail}) {
		r.problem("accounts: enabled are %v, want %s and %s: %v %s", enabled, adaEmail, benEmail, err, output)
	}
}

// A size is what perigee occupies at a moment of the run.
type size struct {
	at          time.Duration
	start       int   // which process it is
	memory      int64 // resident
	descriptors int
	goroutines  int
	disk        map[string]int64 // bytes on disk by entry of the data directory
}

// measureGrowth notes sizes at forty moments of the run.
func (r *run) measureGrowth(ctx context.Context, length time.Duration) {
	began, socket := time.Now(), r.world.socket()
	defer socket.CloseIdleConnections()
	for wait(ctx, length/40); ctx.Err() == nil; wait(ctx, length/40) {
		r.world.mu.Lock()
		p, start := r.world.perigee, r.world.starts
		r.world.mu.Unlock()
		r.growth = append(r.growth, size{
			at: time.Since(began), start: start, memory: p.resident(), descriptors: p.descriptors(),
			goroutines: goroutines(ctx, socket), disk: diskUse(r.world.data),
		})
	}
}

// goroutines reads the number from /metrics; it is 0 if perigee does not answer.
func goroutines(ctx context.Context, socket *http.Client) (n int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		return 0
	}
	resp, err := socket.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return n
}

// verifyGrowth checks what has a limit. Memory has one that findLeaks checks.
func (r *run) verifyGrowth() {
	if len(r.growth) < 10 {
		r.problem("growth: only %d measurements", len(r.growth))
	}
	for _, s := range r.growth {
		if limit := bytesOf(soakTraces); s.disk["traces"] > limit+limit/4 {
			r.problem("growth: traces have %d MiB on disk after %v, with traces.keep %s", s.disk["traces"]>>20, s.at.Round(time.Second), soakTraces)
		}
	}
	// In the second third, after the caches of a new process are filled.
	first, last := r.steady()
	if first == nil || last.at-first.at < 5*time.Minute {
		return
	}
	if last.memory > 2*first.memory && last.memory > 64<<20 {
		r.problem("growth: memory from %d MiB at %v to %d MiB at %v in one process", first.memory>>20, first.at.Round(time.Second),
			last.memory>>20, last.at.Round(time.Second))
	}
}

// steady returns the first and the last size of the process that lived longest, or nil.
func (r *run) steady() (first, last *size) {
	for i := 0; i < len(r.growth); {
		j := i
		for j+1 < len(r.growth) && r.growth[j+1].start == r.growth[i].start {
			j++
		}
		if i < j && (first == nil || r.growth[j].at-r.growth[i].at > last.at-first.at) {
			first, last = &r.growth[i], &r.growth[j]
		}
		i = j + 1
	}
	return first, last
}

// reportGrowth prints eight of the sizes, and how much the longest process has grown.
func (r *run) reportGrowth(out io.Writer) {
	if len(r.growth) == 0 {
		return
	}
	fmt.Fprintf(out, "  growth:       %8s %8s %9s %11s %10s %10s %8s\n", "after", "process", "memory", "descriptors", "goroutines", "database", "traces")
	row := func(s *size) {
		fmt.Fprintf(out, "                %8v %8d %5d MiB %11d %10d %6d MiB %4d MiB\n", s.at.Round(time.Second), s.start, s.memory>>20,
			s.descriptors, s.goroutines, s.disk["database"]>>20, s.disk["traces"]>>20)
	}
	for i := range 8 {
		row(&r.growth[(len(r.growth)-1)*i/7])
	}
	if first, last := r.steady(); first != nil {
		fmt.Fprintf(out, "  the longest process lived for %v; its memory went from %d to %d MiB\n", (last.at - first.at).Round(time.Second),
			first.memory>>20, last.memory>>20)
	}
	last := r.growth[len(r.growth)-1]
	if n := len(r.calls); n > 0 && r.world.database == nil {
		fmt.Fprintf(out, "  the database has %d bytes for each call, with its stored responses\n", last.disk["database"]/int64(n))
	}
}
