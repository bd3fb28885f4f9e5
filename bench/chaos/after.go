package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leaks are what one process held when it was idle, before and after.
type leaks struct {
	descriptors, goroutines             int
	descriptorsBefore, goroutinesBefore int
}

// verify checks what can only be known when all calls are over. perigee is up, and idle.
func (r *run) verify(ctx context.Context) {
	r.verifyKept(ctx)
	r.verifyRows(ctx)
	r.verifyRPM()
	r.verifyPlaces()
	r.verifyTokens()
	r.verifyAccounts(ctx)
	r.verifyLog()
}

// verifyLog looks for panics in the log, and for what a perigee built with -race reports.
func (r *run) verifyLog() {
	log, err := os.ReadFile(filepath.Join(r.world.dir, perigeeLog))
	if err != nil {
		r.problem("log: %v", err)
	}
	for line := range strings.Lines(string(log)) {
		for _, bad := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, bad) {
				r.problem("panic: %s", line)
			}
		}
		if strings.Contains(line, `level=ERROR msg="panic`) {
			r.problem("panic: %.500s", line)
		}
	}
}

// verifyKept reads every stored response that a client was told of.
func (r *run) verifyKept(ctx context.Context) {
	for i, k := range r.kept {
		status, got, err := r.client.fetch(ctx, k.key, k.id)
		if err != nil || status != http.StatusOK || got.text() != k.text {
			r.problem("stored and missing: response %s of call %s, acknowledged at %s: status %d, %v",
				k.id, k.tag, k.at.Format(clockForm), status, err)
		}
		other := clientKeys[(slices.IndexFunc(clientKeys, func(c clientKey) bool { return c.name == k.key.name })+1)%3]
		if i%10 != 0 || other.name == k.key.name {
			continue
		}
		if status, _, _ := r.client.fetch(ctx, other, k.id); status != http.StatusNotFound {
			r.problem("%s: response %s of key %s, read with key %s: status %d", mixed, k.id, k.key.name, other.name, status)
		}
	}
}

// A row is what perigee recorded of a call.
type row struct {
	ID     string
	Status int
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

// verifyRows compares the recorded calls with what clients saw.
func (r *run) verifyRows(ctx context.Context) {
	rows, err := r.rows(ctx)
	if err != nil {
		r.problem("usage rows cannot be read: %v", err)
		return
	}
	for _, c := range r.calls {
		a := &c.answer
		if a.id == "" || a.status == http.StatusUnauthorized || c.verdict != whole && c.verdict != refused {
			continue
		}
		got, ok := rows[a.id]
		ok = ok && got.Status != 0 // a row of status 0 is of a call that was open when perigee was killed
		switch {
		case !ok && a.status == http.StatusOK && !r.world.mayLose(c.over) && !r.world.wasDown(c.began, c.over, false):
			r.problem("usage row missing: %s, %s at %s (call %s)", c, c.verdict, c.over.Format(clockForm), a.id)
		case !ok:
		case c.leaves: // with the last chunk, which also names the usage: the row may have an estimate
		case c.verdict == whole && got.Status != http.StatusOK,
			c.verdict == whole && r.world.provider.sent(c.tag, 0).attempts == 1 && got.Output != c.chunks:
			r.problem("usage row disagrees: %s was whole with %d output tokens, the row of %s has status %d and %d",
				c, c.chunks, a.id, got.Status, got.Output)
		case c.verdict == refused && a.status != http.StatusOK && got.Status != a.status:
			r.problem("usage row disagrees: %s had status %d, the row of %s has %d", c, a.status, a.id, got.Status)
		}
	}
}

// socket returns a client of the socket for commands.
func (w *world) socket() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.data, "perigee.sock"))
	}}}
}

// rows reads all rows through the socket for commands.
func (r *run) rows(ctx context.Context) (map[string]row, error) {
	socket := r.world.socket()
	defer socket.CloseIdleConnections()
	all, before := map[string]row{}, ""
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/traces?limit=1000"+before, nil)
		if err != nil {
			return nil, err
		}
		resp, err := socket.Do(req)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var page []row
		if err == nil {
			err = json.Unmarshal(data, &page)
		}
		if err != nil {
			return nil, fmt.Errorf("status %d, %.200s: %w", resp.StatusCode, data, err)
		}
		if len(page) == 0 {
			return all, nil
		}
		for _, row := range page {
			all[row.ID] = row
		}
		before = "&before=" + page[len(page)-1].ID
	}
}

// byKey are the calls of a key that the provider was asked for, in the order of its attempts.
func (r *run) byKey(name string) (calls []*call) {
	for _, c := range r.calls {
		if c.key.name == name && r.world.provider.sent(c.tag, 0).attempts > 0 {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *call) int { return a.began.Compare(b.began) })
	return calls
}

// verifyRPM counts the requests of a key that were let in within a minute. The bucket holds a
// minute's worth and is filled at the same rate. There is another full one after a restart, and
// while PostgreSQL, which has the bucket that replicas share, is away.
func (r *run) verifyRPM() {
	let := r.byKey("rpm")
	for i := range let {
		for j := i; j < len(let); j++ {
			from, to := let[i].began, let[j].over
			buckets := 1
			for _, s := range slices.Concat(r.world.downs, r.world.storeOuts) {
				if s.overlaps(from, to) {
					buckets++
				}
			}
			if n, most := j-i+1, float64(keyRPM)*(float64(buckets)+to.Sub(from).Minutes())+1; float64(n) > most {
				r.problem("limit exceeded: %d requests of the key rpm within %v, with at most %.1f allowed", n, to.Sub(from), most)
				return
			}
		}
	}
}

// verifyPlaces counts the calls of a key that the provider had open at the same time.
func (r *run) verifyPlaces() {
	type open struct{ from, to time.Time }
	var all []open
	let := map[string]*call{}
	for _, c := range r.byKey("places") {
		let[c.tag] = c
	}
	r.world.provider.each(func(tag string, a *attempt) {
		if c := let[tag]; c != nil && a.completely && c.verdict == whole {
			all = append(all, open{a.began, a.ended})
		}
	})
	for _, at := range all {
		n := 0
		for _, o := range all {
			if !o.from.After(at.from) && o.to.After(at.from) {
				n++
			}
		}
		if n > keyConcurrency && !r.world.wasDown(at.from, at.to, false) {
			r.problem("limit exceeded: %d calls of the key places at %s, with %d allowed", n, at.from.Format(clockForm), keyConcurrency)
			return
		}
	}
}

// verifyTokens adds up what a key has cost until a call was let in. What runs at the same time, and
// what a kill lost, comes on top.
func (r *run) verifyTokens() {
	let := r.byKey("tokens")
	for _, c := range let {
		spent := 0
		for _, before := range let {
			if before.verdict == whole && before.over.Before(c.began) && !r.world.mayLose(before.over) {
				spent += promptTokens + before.chunks
			}
		}
		if spent >= keyTokens {
			r.problem("limit exceeded: %s was let in at %s after %d tokens of %d", c, c.began.Format(clockForm), spent, keyTokens)
			return
		}
	}
}
